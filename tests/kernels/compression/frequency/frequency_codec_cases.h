#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/compression/codec_cases.h"
#include "triaccel/base/error.h"
#include "triaccel/base/random.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/compression/frequency/frequency_codec.h"

namespace triaccel::kernels {

enum class MapOrder { Nchw, Nhwc };

inline BlockMap dense_map(std::int64_t images, std::int64_t channels, std::int64_t rows,
                          std::int64_t columns, MapOrder order) {
  BlockMap map = {.images = images, .channels = channels, .rows = rows, .columns = columns};
  map.image_stride = channels * rows * columns;
  map.channel_stride = order == MapOrder::Nchw ? rows * columns : 1;
  map.column_stride = order == MapOrder::Nchw ? 1 : channels;
  map.row_stride = columns * map.column_stride;
  return map;
}

/// Memory that a map reaches into, in elements.
inline std::int64_t reach_of(const BlockMap& map) {
  if (map.images * map.channels * map.rows * map.columns == 0) return 0;
  return map.offset + (map.images - 1) * map.image_stride +
         (map.channels - 1) * map.channel_stride + (map.rows - 1) * map.row_stride +
         (map.columns - 1) * map.column_stride + 1;
}

/// body(place in memory, number by image, channel, row and column, channel).
template <typename Body>
void for_each_place(const BlockMap& map, Body body) {
  std::int64_t number = 0;
  for (std::int64_t n = 0; n < map.images; ++n)
    for (std::int64_t c = 0; c < map.channels; ++c)
      for (std::int64_t y = 0; y < map.rows; ++y)
        for (std::int64_t x = 0; x < map.columns; ++x, ++number)
          body(map.offset + n * map.image_stride + c * map.channel_stride + y * map.row_stride +
                   x * map.column_stride,
               number, c);
}

inline float uniform(std::uint64_t seed, std::int64_t number) {
  return unit_float(random_words(seed, static_cast<std::uint64_t>(number)).words[0]) * 2 - 1;
}

/// Memory of a map whose channels are noise about a middle, constant, zero, tiny, or have an
/// outlier; the same numbers in whatever order they lie. Gaps hold NaN.
inline std::vector<float> awkward_map(const BlockMap& map) {
  std::vector<float> values(static_cast<std::size_t>(reach_of(map)), NAN);
  for_each_place(map, [&](std::int64_t place, std::int64_t number, std::int64_t channel) {
    const float noise = uniform(3, number);
    const float kinds[] = {noise,
                           100.0f + noise,
                           0.37f,
                           0.0f,
                           1e-30f * noise,
                           number % 97 == 5 ? 1e6f : noise,
                           1e-3f * noise - 5.0f};
    values[static_cast<std::size_t>(place)] = kinds[channel % 7];
  });
  return values;
}

/// Plain noise.
inline std::vector<float> noisy_map(const BlockMap& map, std::uint64_t seed = 3) {
  std::vector<float> values(static_cast<std::size_t>(reach_of(map)), NAN);
  for_each_place(map, [&](std::int64_t place, std::int64_t number, std::int64_t) {
    values[static_cast<std::size_t>(place)] = uniform(seed, number);
  });
  return values;
}

inline FrequencyLayout layout_of(const FrequencyCoding& coding) {
  return frequency_layout(coding.map, coding.block, coding.bits);
}

inline std::string described(const FrequencyCoding& coding) {
  return text(coding.block, "x", coding.block, " blocks of ", coding.map.images, "x",
              coding.map.channels, "x", coding.map.rows, "x", coding.map.columns, ", type ",
              static_cast<int>(coding.type), ", rounding ", static_cast<int>(coding.rounding),
              ", channel stride ", coding.map.channel_stride);
}

/// Maps of odd sizes in both orders and with gaps, few and many channels, positions that do not
/// fill a unit, each with other bits, types and roundings.
inline std::vector<FrequencyCoding> awkward_codings() {
  const std::array<std::uint8_t, kFrequencyBands> eighths[] = {
      {56, 36, 25, 17, 9}, {64, 64, 64, 64, 64}, {8, 16, 0, 0, 0}, {0, 3, 21, 8, 8}};
  struct Sizes {
    std::int64_t images, channels, side_y, side_x;
  };
  const Sizes sizes[] = {{1, 1, 1, 1},  {3, 3, 7, 13},  {2, 24, 31, 8},  {5, 33, 8, 16},
                         {9, 64, 4, 4}, {1, 40, 33, 3}, {17, 5, 14, 14}, {40, 2, 4, 5}};
  std::vector<FrequencyCoding> codings;
  int turn = 0;
  for (const Sizes& s : sizes)
    for (const int block : {8, 7, 4})
      for (const MapOrder order : {MapOrder::Nchw, MapOrder::Nhwc}) {
        BlockMap map = dense_map(s.images, s.channels, s.side_y, s.side_x, order);
        if (turn % 5 == 4) {  // a view with gaps and an odd start
          map.image_stride = map.image_stride * 2 + 3;
          map.offset = 5;
        }
        codings.push_back({.map = map,
                           .type = static_cast<FloatType>(turn % 3),
                           .block = block,
                           .bits = coefficient_bits(block, eighths[turn % 4]),
                           .rounding = static_cast<Rounding>(turn / 3 % 3),
                           .key = {.seed = 77, .tensor = static_cast<std::uint32_t>(turn)}});
        ++turn;
      }
  return codings;
}

}  // namespace triaccel::kernels
