#include <algorithm>

#include "triaccel/base/error.h"
#include "triaccel/int8/cuda/launches.h"
#include "triaccel/int8/network.h"

namespace triaccel::int8::cuda {
namespace {

std::int32_t patch_bytes(const DeviceNetwork& network, std::int32_t together) {
  std::int32_t bytes = 0;
  for (std::int32_t l = 0; l < network.count; ++l) {
    const DeviceLayer& layer = network.layers[l];
    if (layer.kind != LayerKind::Convolution) continue;
    const std::int32_t sources = l == 0 ? 1 : together;
    bytes = std::max(bytes, sources * layer.groups * 4 * layer.patch_stride);
  }
  return bytes;
}

}  // namespace

SampleLayout sample_layout(const DeviceNetwork& network, std::int64_t limit) {
  const bool points = network.layers[0].kind == LayerKind::Points;
  std::int32_t sums = 0;
  std::int32_t offsets = 0;
  SampleLayout layout;
  for (std::int32_t l = points ? network.features : 0; l < network.count; ++l) {
    const DeviceLayer& layer = network.layers[l];
    layout.placed_stride = std::max(layout.placed_stride, layer.placed_bytes);
    layout.error_stride = std::max(layout.error_stride, layer.error_stride);
    sums = std::max(sums, padded_depth(network.streams * layer.outputs * 4));
    if (layer.kind == LayerKind::Convolution) offsets = std::max(offsets, 2 * layer.panel_stride);
  }
  require(layout.placed_stride < 65536, "--device cuda", "an input of ", layout.placed_stride,
          " bytes is too large for one block of a CUDA device; use --device cpu");
  layout.sums = network.streams * layout.placed_stride;
  layout.offsets = layout.sums + sums;
  layout.errors = layout.offsets + offsets;
  layout.patches = layout.errors + 2 * layout.error_stride;
  for (layout.streams_together = network.streams;; --layout.streams_together) {
    layout.bytes = layout.patches + patch_bytes(network, layout.streams_together);
    if (layout.bytes <= limit) return layout;
    require(layout.streams_together > 1, "--device cuda", "a sample takes ", layout.bytes,
            " bytes of shared memory, but a block has only ", limit, "; use --device cpu");
  }
}

}  // namespace triaccel::int8::cuda
