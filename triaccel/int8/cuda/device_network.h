#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/int8/network.h"

namespace triaccel::int8::cuda {

/// Division of numbers below 2^31 by a divisor known to the host (Granlund and Montgomery, 1994).
/// For an unknown divisor the compiler would use floating-point reciprocals.
struct Divider {
  std::uint32_t by = 1;
  std::uint32_t factor = 1;
  std::uint32_t shift = 0;

  TRIACCEL_HOST_DEVICE std::int32_t operator()(std::int32_t number) const {
    const auto n = static_cast<std::uint32_t>(number);
    const auto high = static_cast<std::uint32_t>((std::uint64_t{n} * factor) >> 32);
    return static_cast<std::int32_t>((high + n) >> shift);
  }
};

Divider make_divider(std::int32_t by);

/// A layer as device code reads it.
struct DeviceLayer {
  LayerKind kind = LayerKind::Linear;
  Pooling pooling = Pooling::None;
  bool relu = true;
  bool perturbed = false;
  std::int32_t in_channels = 0;
  std::int32_t out_channels = 0;
  std::int32_t depth = 0;
  std::int32_t panel_stride = 0;  // padded depth
  std::int32_t inputs = 0;
  std::int32_t outputs = 0;    // pooled
  std::int32_t positions = 0;  // rows of the product: before pooling, or points
  std::int64_t weights = 0;    // offset among all weights
  std::int64_t weight_count = 0;
  std::int64_t panel = 0;       // offset of its first panel
  std::int64_t panel_size = 0;  // stride between panels of streams; 0: shared
  Divider by_depth = {};

  // Backpropagated layers: offsets of a sample's bytes and of the gradient sums.
  bool backpropagated = false;
  std::int64_t kept = 0;
  std::int64_t error = 0;
  std::int32_t error_stride = 0;  // padded outputs
  std::int64_t gradient = 0;
  std::int32_t first_tile = 0;  // of the gradient, among those of all layers
  std::int32_t tiles = 0;
  std::int32_t tiles_across = 0;
  Divider by_tiles_across = {};

  // Layout of the input in shared memory: rows of `row_run` values, images with a zero border.
  std::int32_t row_run = 0;
  std::int32_t placed_stride = 0;
  std::int32_t placed_start = 0;
  std::int32_t placed_bytes = 0;
  Divider by_row_run = {};

  // Rows of a feature layer's product in shared memory.
  std::int32_t patch_stride = 0;  // an odd multiple of 16 bytes, to avoid bank conflicts
  Divider by_patch_words = {};
  Divider by_patch_vectors = {};

  // Convolutions gather them from the image.
  std::int32_t kernel_run = 0;    // values of one kernel row
  std::int32_t groups = 0;        // of four positions: a pooled window, or neighbours
  std::int32_t pooled_width = 0;  // of the image where it is not pooled
  Divider by_kernel_run = {};
  Divider by_groups = {};
  Divider by_pooled_width = {};
};

struct DeviceNetwork {
  DeviceLayer layers[kMostLayers] = {};
  std::int32_t count = 0;
  std::int32_t features = 0;  // convolutions or point layers
  std::int32_t boundary = 0;  // layers from it on are backpropagated
  std::int32_t streams = 0;
  std::int64_t panel_bytes = 0;
  std::int64_t kept_bytes = 0;   // per sample
  std::int64_t error_bytes = 0;  // per sample
  std::int64_t gradient_count = 0;
  std::int32_t gradient_tiles = 0;
};

/// Weights whose gradient one block sums.
inline constexpr std::int32_t kTileChannels = 16;
inline constexpr std::int32_t kTileInputs = 64;

/// `perturbed`: number of first layers that are; `streams`: concurrent passes over the batch, each
/// with its own panels of those. Throws UsageError if backpropagation would reach a convolution or
/// point layer.
DeviceNetwork make_device_network(const Network& network, std::int32_t boundary,
                                  std::int32_t perturbed, std::int32_t streams,
                                  bool backpropagates);

}  // namespace triaccel::int8::cuda
