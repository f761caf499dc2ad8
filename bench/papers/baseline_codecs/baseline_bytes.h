#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "triaccel/base/divide_up.h"
#include "triaccel/core/saved_bytes.h"

// The bytes that activations take in other systems' codecs: known from sizes alone, and exact.
namespace triaccel {

/// Codecs of other systems, to compare with.
enum class Baseline : std::uint8_t {
  Bf16,      // rounded to the nearest
  Actnn,     // ActNN: 2 bits, stochastic rounding, three passes over memory
  Gact,      // GACT: 4 bits, stochastic rounding, flat groups
  Division,  // DIVISION: means of 8 x 8 blocks in BF16, the remainder in 2 bits
};

constexpr std::string_view name_of(Baseline codec) {
  switch (codec) {
    case Baseline::Bf16:
      return "bf16";
    case Baseline::Actnn:
      return "actnn";
    case Baseline::Gact:
      return "gact";
    case Baseline::Division:
      return "division";
  }
  return "";
}

inline constexpr int kActnnBits = 2;
inline constexpr int kGactBits = 4;
inline constexpr std::int64_t kSplitBlock = 8;  // elements per side that share a mean

/// Groups of a tensor whose `samples` parts start a group each; the last of a part is filled up.
constexpr std::int64_t sample_groups(std::int64_t samples, std::int64_t elements) {
  if (elements == 0) return 0;
  return samples * divide_up(elements / samples, kGroupElements);
}

/// Groups with so many whole bits per element, and 4 bytes each for the range.
constexpr std::int64_t plain_group_bytes(std::int64_t groups, int bits) {
  return groups * (kGroupElements / 8 * bits + 4);
}

/// Means along one side of a map: of whole blocks, or one of a map that is smaller than a block.
constexpr std::int64_t split_means(std::int64_t side) {
  return side < kSplitBlock ? 1 : side / kSplitBlock;
}

/// `maps` maps: a range and BF16 means for each, 2 bits per element.
constexpr std::int64_t split_bytes(std::int64_t maps, std::int64_t rows, std::int64_t columns) {
  if (maps * rows * columns == 0) return 0;
  return maps * (4 + 2 * split_means(rows) * split_means(columns)) +
         (maps * rows * columns + 3) / 4;
}

/// Whether a tensor is a batch of maps; Division stores others as Actnn does.
constexpr bool has_maps(std::span<const std::int64_t> sizes) {
  return sizes.size() == 4 && sizes[2] * sizes[3] > 1;
}

constexpr std::int64_t baseline_bytes(Baseline codec, std::span<const std::int64_t> sizes) {
  std::int64_t elements = 1;
  for (const std::int64_t size : sizes) elements *= size;
  const std::int64_t samples = sizes.empty() ? 1 : sizes[0];
  const std::int64_t actnn = plain_group_bytes(sample_groups(samples, elements), kActnnBits);
  switch (codec) {
    case Baseline::Bf16:
      return 2 * elements;
    case Baseline::Actnn:
      return actnn;
    case Baseline::Gact:
      return plain_group_bytes(sample_groups(1, elements), kGactBits);
    case Baseline::Division:
      return has_maps(sizes) ? split_bytes(sizes[0] * sizes[1], sizes[2], sizes[3]) : actnn;
  }
  return 0;
}

}  // namespace triaccel
