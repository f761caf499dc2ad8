#pragma once

#include <cstdint>
#include <span>

#include "triaccel/base/divide_up.h"
#include "triaccel/core/saved_plan.h"

// The bytes that tensors take in groups: known from sizes and plans alone, and exact.
namespace triaccel {

/// Elements that share a range.
inline constexpr std::int64_t kGroupElements = 256;

/// Elements that are stored together: four groups.
inline constexpr std::int64_t kGroupTile = 1024;

/// Eighths of a bit that SavedCodec::Groups may spend on an element.
inline constexpr int kMinGroupEighths = 8;
inline constexpr int kMaxGroupEighths = 64;

constexpr std::int64_t group_tiles(std::int64_t elements) {
  return divide_up(elements, kGroupTile);
}

/// SavedCodec::Groups, in whole tiles: codes, and a range of 4 bytes for every group.
constexpr std::int64_t group_bytes(std::int64_t elements, int eighths) {
  return group_tiles(elements) * (1 + eighths) * 16;
}

/// SavedCodec::Levelled of [N, C, H, W]: also the least value and the range of every channel.
constexpr std::int64_t levelled_bytes(std::span<const std::int64_t> sizes, int eighths) {
  return group_bytes(sizes[0] * sizes[1] * sizes[2] * sizes[3], eighths) + 8 * sizes[1];
}

}  // namespace triaccel
