#pragma once

#include <cstdint>

#include "triaccel/int8/network.h"

namespace triaccel::int8 {

/// Copies of up to this many bytes may run over the end of what they copy.
inline constexpr std::int32_t kCopySlack = 16;

/// How a layer's input of one sample lies in working memory: `rows` runs of `run` values, `stride`
/// apart, with zeros between. Convolutions have their border around the image, products their rows
/// padded.
struct InputPlacement {
  std::int32_t rows = 0;
  std::int32_t run = 0;
  std::int32_t stride = 0;
  std::int32_t start = 0;
  std::int32_t bytes = 0;  // of the whole
};

InputPlacement input_placement(const Layer& layer);

/// From values one after the other to the placement.
void place_input(const InputPlacement& placement, const std::int8_t* values, std::int8_t* placed);

/// And back.
void compact_input(const InputPlacement& placement, const std::int8_t* placed, std::int8_t* values);

/// Sums of the layer before, which fill the input, as mantissas after `shift`. `placed` is cleared
/// where nothing else lies.
void requantise_input(const InputPlacement& placement, const std::int32_t* sums, std::int32_t shift,
                      bool relu, std::int8_t* placed);

}  // namespace triaccel::int8
