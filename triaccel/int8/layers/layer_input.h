#pragma once

#include <cstdint>

#include "triaccel/int8/network.h"

namespace triaccel::int8 {

/// Copies may read or write up to this many bytes beyond the end.
inline constexpr std::int32_t kCopySlack = 16;

/// Layout of a layer's input of one sample in working memory: `rows` runs of `run` values, `stride`
/// apart, with zeros between: the border of an image, or the padding of rows.
struct InputPlacement {
  std::int32_t rows = 0;
  std::int32_t run = 0;
  std::int32_t stride = 0;
  std::int32_t start = 0;
  std::int32_t bytes = 0;  // in total
};

InputPlacement input_placement(const Layer& layer);

/// Copies contiguous values to this layout.
void place_input(const InputPlacement& placement, const std::int8_t* values, std::int8_t* placed);

/// Copies back to contiguous values.
void compact_input(const InputPlacement& placement, const std::int8_t* placed, std::int8_t* values);

/// Converts the sums of the previous layer to mantissas with `shift`. Clears the rest of `placed`.
void requantise_input(const InputPlacement& placement, const std::int32_t* sums, std::int32_t shift,
                      bool relu, std::int8_t* placed);

}  // namespace triaccel::int8
