#pragma once

#include <cstdint>

#include "bench/papers/baseline_codecs/split_codec.h"
#include "bench/papers/baseline_codecs/three_pass_codec.h"
#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/compression/dither.h"

namespace triaccel::kernels {

/// What codes are made with. A range that is not finite has NaN as `low`.
struct PlainRange {
  float low, scale;
};

/// The smallest and the largest of some values; `least` is NaN where one is.
struct PlainExtremes {
  float least, largest;

  TRIACCEL_HOST_DEVICE static PlainExtremes of_none() {
    const float infinity = float_from_bits(0x7f800000u);
    return {infinity, -infinity};
  }
  TRIACCEL_HOST_DEVICE void add(const PlainExtremes& others) {
    if (others.least < least || others.least != others.least) least = others.least;
    if (others.largest > largest) largest = others.largest;
  }
  TRIACCEL_HOST_DEVICE void add(float value) { add(PlainExtremes{value, value}); }
};

/// The small number is ActNN's and keeps constants from dividing by zero.
TRIACCEL_HOST_DEVICE inline PlainRange plain_range(const PlainExtremes& found, int bits) {
  const float range = (found.largest - found.least) + (found.least - found.least);
  if (!(range <= 0x1.fffffep127f)) return {float_from_bits(0x7fc00000u), 1.0f};
  return {found.least + 0.0f, static_cast<float>((1 << bits) - 1) / (range + 2e-6f)};
}

/// Rounded after codes were made, as theirs is.
TRIACCEL_HOST_DEVICE inline std::uint32_t stored_plain_range(PlainRange range) {
  return float_to_bf16(range.low) | std::uint32_t{float_to_bf16(range.scale)} << 16;
}

TRIACCEL_HOST_DEVICE inline PlainRange read_plain_range(std::uint32_t stored) {
  return {float_from_bits(stored << 16), float_from_bits(stored & 0xffff0000u)};
}

TRIACCEL_HOST_DEVICE inline std::uint32_t plain_code(float value, PlainRange range, int bits,
                                                     const DitherKey& key, std::int64_t element) {
  const auto number = static_cast<std::uint64_t>(element);
  const std::uint64_t step = key.step == nullptr ? 0 : static_cast<std::uint64_t>(*key.step);
  const RandomWords words = random_words(key.seed, number / 8, step << 32 | key.tensor);
  const float position = (value - range.low) * range.scale +
                         dither_offset(words.words[number % 8 / 2], static_cast<int>(number % 2));
  const float top = static_cast<float>((1 << bits) - 1);
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(position < top ? position : top));
}

TRIACCEL_HOST_DEVICE inline float plain_value(std::uint32_t code, PlainRange range) {
  return static_cast<float>(code) / range.scale + range.low;
}

/// How the groups of a tensor lie.
struct PlainGroups {
  std::int64_t of_sample;  // groups
  std::int64_t sample;     // elements
  std::int64_t groups;     // of all samples

  explicit PlainGroups(const PlainGroupCoding& coding)
      : of_sample(sample_groups(1, coding.count / coding.samples)),
        sample(coding.count / coding.samples),
        groups(coding.samples * of_sample) {}

  /// Elements [begin, end) of a group.
  struct Range {
    std::int64_t begin, end;
  };
  TRIACCEL_HOST_DEVICE Range range(std::int64_t group) const {
    const std::int64_t within = group % of_sample * kGroupElements;
    const std::int64_t left = sample - within, begin = group / of_sample * sample + within;
    return {begin, begin + (left < kGroupElements ? left : kGroupElements)};
  }
};

/// Where the means of a map lie. See SplitCoding.
struct SplitMeans {
  std::int64_t rows, columns;              // of a map
  std::int64_t block_rows, block_columns;  // elements that share a mean
  std::int64_t mean_rows, mean_columns;

  explicit SplitMeans(const SplitCoding& coding)
      : rows(coding.rows),
        columns(coding.columns),
        block_rows(coding.rows < kSplitBlock ? coding.rows : kSplitBlock),
        block_columns(coding.columns < kSplitBlock ? coding.columns : kSplitBlock),
        mean_rows(split_means(coding.rows)),
        mean_columns(split_means(coding.columns)) {}

  TRIACCEL_HOST_DEVICE std::int64_t of_map() const { return mean_rows * mean_columns; }

  /// The mean that is nearest to an element of a map.
  TRIACCEL_HOST_DEVICE std::int64_t nearest(std::int64_t element) const {
    return element / columns * mean_rows / rows * mean_columns +
           element % columns * mean_columns / columns;
  }

  /// Summed in the order of rows, so that every back end gives the same number.
  template <typename Stored>
  TRIACCEL_HOST_DEVICE std::uint16_t mean(const typename Stored::Word* map,
                                          std::int64_t number) const {
    const std::int64_t row = number / mean_columns * block_rows;
    const std::int64_t column = number % mean_columns * block_columns;
    float sum = 0.0f;
    for (std::int64_t r = row; r < row + block_rows; ++r)
      for (std::int64_t c = column; c < column + block_columns; ++c)
        sum += Stored::value(map[r * columns + c]);
    return float_to_bf16(sum / static_cast<float>(block_rows * block_columns));
  }
};

/// Where the parts of a split tensor begin.
template <typename Byte>
struct SplitParts {
  Byte *ranges, *means, *codes;
};

template <typename Byte>
SplitParts<Byte> split_parts(const SplitCoding& coding, Byte* codes) {
  Byte* means = codes + 4 * coding.maps;
  return {codes, means, means + 2 * coding.maps * SplitMeans(coding).of_map()};
}

}  // namespace triaccel::kernels
