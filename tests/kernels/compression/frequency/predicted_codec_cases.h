#pragma once

#include "tests/kernels/compression/frequency/frequency_codec_cases.h"
#include "triaccel/kernels/compression/frequency/predicted_codec.h"

namespace triaccel::kernels {

inline PredictedLayout layout_of(const PredictedCoding& coding) {
  return predicted_layout(coding.map, coding.block, coding.bits, coding.saved);
}

inline PredictedCoding predicted_case(const BlockMap& map, int block = 8,
                                      FloatType type = FloatType::F32) {
  return {.map = map,
          .type = type,
          .block = block,
          .bits = coefficient_bits(block, {56, 48, 48, 40, 40}),
          .saved = 32,
          .key = {.seed = 5}};
}

/// Maps whose blocks of `side` are one of four patterns, each time stronger or weaker and with a
/// little noise.
inline std::vector<float> repeated_blocks(const BlockMap& map, int side = 8) {
  std::vector<float> values(static_cast<std::size_t>(reach_of(map)));
  for_each_place(map, [&](std::int64_t place, std::int64_t number, std::int64_t channel) {
    const std::int64_t row = number / map.columns % map.rows, column = number % map.columns;
    const std::int64_t across = (map.columns + side - 1) / side;
    const std::int64_t block = row / side * across + column / side;
    const std::int64_t pattern = channel * 4 + block % 4;
    const float strength = 1.0f + 0.3f * uniform(7, block + 64 * channel);
    values[static_cast<std::size_t>(place)] =
        strength * uniform(8, pattern * 64 + row % side * side + column % side) +
        0.01f * uniform(9, number);
  });
  return values;
}

}  // namespace triaccel::kernels
