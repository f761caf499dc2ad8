#include "triaccel/int8/layers/layer_input.h"

#include <cstring>

#include "triaccel/int8/layers/sums.h"
#include "triaccel/int8/network.h"

namespace triaccel::int8 {
namespace {

void clear(const InputPlacement& placement, std::int8_t* placed) {
  if (placement.bytes > placement.rows * placement.run)
    std::memset(placed, 0, static_cast<std::size_t>(placement.bytes));
}

std::int64_t row_start(const InputPlacement& placement, std::int32_t row) {
  return placement.start + std::int64_t{row} * placement.stride;
}

}  // namespace

InputPlacement input_placement(const Layer& layer) {
  switch (layer.kind) {
    case LayerKind::Convolution: {
      const std::int32_t stride = (layer.width + 2 * layer.padding) * layer.in_channels;
      return {.rows = layer.height,
              .run = layer.width * layer.in_channels,
              .stride = stride,
              .start = layer.padding * (stride + layer.in_channels),
              .bytes = (layer.height + 2 * layer.padding) * stride + kCopySlack};
    }
    case LayerKind::Points: {
      const std::int32_t stride = padded_depth(layer.in_channels);
      return {.rows = layer.height,
              .run = layer.in_channels,
              .stride = stride,
              .start = 0,
              .bytes = layer.height * stride};
    }
    case LayerKind::Linear: {
      const std::int32_t stride = padded_depth(layer.in_channels);
      return {.rows = 1, .run = layer.in_channels, .stride = stride, .start = 0, .bytes = stride};
    }
  }
  return {};
}

void place_input(const InputPlacement& placement, const std::int8_t* values, std::int8_t* placed) {
  clear(placement, placed);
  for (std::int32_t row = 0; row < placement.rows; ++row)
    std::memcpy(placed + row_start(placement, row), values + std::int64_t{row} * placement.run,
                static_cast<std::size_t>(placement.run));
}

void compact_input(const InputPlacement& placement, const std::int8_t* placed,
                   std::int8_t* values) {
  for (std::int32_t row = 0; row < placement.rows; ++row)
    std::memcpy(values + std::int64_t{row} * placement.run, placed + row_start(placement, row),
                static_cast<std::size_t>(placement.run));
}

void requantise_input(const InputPlacement& placement, const std::int32_t* sums, std::int32_t shift,
                      bool relu, std::int8_t* placed) {
  clear(placement, placed);
  if (placement.run == placement.stride) {
    requantise_sums(sums, std::int64_t{placement.rows} * placement.run, shift, relu,
                    placed + placement.start);
    return;
  }
  for (std::int32_t row = 0; row < placement.rows; ++row)
    requantise_sums(sums + std::int64_t{row} * placement.run, placement.run, shift, relu,
                    placed + row_start(placement, row));
}

}  // namespace triaccel::int8
