#pragma once

#include <cstdint>
#include <span>

#include "triaccel/base/divide_up.h"
#include "triaccel/core/saved_plan.h"

// The bytes that tensors take in groups, and in what other systems do: known from sizes and plans
// alone, and exact.
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

/// Groups of a tensor whose `samples` parts start a group each; the last of a part is filled up.
constexpr std::int64_t sample_groups(std::int64_t samples, std::int64_t elements) {
  if (elements == 0) return 0;
  return samples * divide_up(elements / samples, kGroupElements);
}

/// Groups of codes of so many whole bits, with 4 bytes each for the range.
constexpr std::int64_t plain_group_bytes(std::int64_t groups, int bits) {
  return groups * (kGroupElements / 8 * bits + 4);
}

inline constexpr int kActnnBits = 2;
inline constexpr int kGactBits = 4;
inline constexpr std::int64_t kSplitBlock = 8;  // elements per side that share a mean

/// Means along one side of a map: of whole blocks, or one of a map that is smaller than a block.
constexpr std::int64_t split_means(std::int64_t side) {
  return side < kSplitBlock ? 1 : side / kSplitBlock;
}

/// SavedCodec::LowHighSplit of `maps` maps: a range and BF16 means for each, 2 bits per element.
constexpr std::int64_t split_bytes(std::int64_t maps, std::int64_t rows, std::int64_t columns) {
  if (maps * rows * columns == 0) return 0;
  return maps * (4 + 2 * split_means(rows) * split_means(columns)) +
         (maps * rows * columns + 3) / 4;
}

/// Whether a tensor is a batch of maps; LowHighSplit stores others as GroupsActnn does.
constexpr bool has_maps(std::span<const std::int64_t> sizes) {
  return sizes.size() == 4 && sizes[2] * sizes[3] > 1;
}

/// What Bf16, GroupsActnn, GroupsGact and LowHighSplit take for a tensor; 0 for other codecs.
constexpr std::int64_t baseline_bytes(SavedCodec codec, std::span<const std::int64_t> sizes) {
  std::int64_t elements = 1;
  for (const std::int64_t size : sizes) elements *= size;
  const std::int64_t samples = sizes.empty() ? 1 : sizes[0];
  const std::int64_t actnn = plain_group_bytes(sample_groups(samples, elements), kActnnBits);
  switch (codec) {
    case SavedCodec::Bf16:
      return 2 * elements;
    case SavedCodec::GroupsActnn:
      return actnn;
    case SavedCodec::GroupsGact:
      return plain_group_bytes(sample_groups(1, elements), kGactBits);
    case SavedCodec::LowHighSplit:
      return has_maps(sizes) ? split_bytes(sizes[0] * sizes[1], sizes[2], sizes[3]) : actnn;
    case SavedCodec::Raw:
    case SavedCodec::Shape:
    case SavedCodec::Mask:
    case SavedCodec::Window:
    case SavedCodec::Groups:
    case SavedCodec::Levelled:
    case SavedCodec::NonZeros:
    case SavedCodec::Frequency:
    case SavedCodec::Derived:
      return 0;
  }
  return 0;
}

}  // namespace triaccel
