#pragma once

// The bytes that stored tensors take: known from their element counts and plans alone, and exact.

#include <cstdint>

#include "triaccel/base/divide_up.h"
#include "triaccel/core/saved_plan.h"

namespace triaccel {

/// One bit per element, in whole words.
constexpr std::int64_t mask_bytes(std::int64_t elements) { return (elements + 31) / 32 * 4; }

/// Whether so many bytes can be the mask of so many elements as they are.
constexpr bool is_mask_of(std::int64_t bytes, std::int64_t elements) {
  return elements % 32 == 0 && bytes == mask_bytes(elements);
}

/// Bits of the index of a tap in a pooling window; at most 256 taps.
constexpr int window_bits(std::int64_t taps) { return taps <= 4 ? 2 : taps <= 16 ? 4 : 8; }

/// The places of maxima within windows of so many taps, in whole words.
constexpr std::int64_t window_bytes(std::int64_t windows, std::int64_t taps) {
  return (windows * window_bits(taps) + 31) / 32 * 4;
}

/// Bytes of the smallest tensor that SavedCodec::Host copies: two copies and their places in the
/// order of streams cost more than smaller ones are worth.
inline constexpr std::int64_t kLeastHostBytes = 256 << 10;

/// Elements whose non-zeros share the space for quantized values.
inline constexpr int kNonZeroTile = 1024;

/// Eighths of a bit per element of that space: at least one bit per non-zero where no element is
/// zero, at most the eight bits that a quantized value may have.
inline constexpr int kMinNonZeroEighths = 8;
inline constexpr int kMaxNonZeroEighths = 64;

/// Quantized values and ranges of a tensor's non-zeros, in whole tiles; without the shared mask.
constexpr std::int64_t nonzero_bytes(std::int64_t elements, int eighths) {
  return divide_up(elements, kNonZeroTile) * (1 + eighths) * 16;
}

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

/// SavedCodec::Groups, in whole tiles: quantized values, and a range of 4 bytes per group.
constexpr std::int64_t group_bytes(std::int64_t elements, int eighths) {
  return group_tiles(elements) * (1 + eighths) * 16;
}

/// Levelled groups: also the least value and the range of every channel or row.
constexpr std::int64_t levelled_bytes(std::int64_t elements, std::int64_t channels, int eighths) {
  return group_bytes(elements, eighths) + 8 * channels;
}

}  // namespace triaccel
