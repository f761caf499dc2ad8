#include "triaccel/int8/cuda/device_network.h"

#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/int8/network.h"

namespace triaccel::int8::cuda {
namespace {

void place_rows(const Layer& layer, DeviceLayer& to) {
  to.row_run = layer.inputs();
  to.placed_stride = to.panel_stride;
  to.placed_bytes = to.panel_stride;
  if (layer.kind == LayerKind::Convolution) {
    to.row_run = layer.width * layer.in_channels;
    to.placed_stride = (layer.width + 2 * layer.padding) * layer.in_channels;
    to.placed_start = layer.padding * (to.placed_stride + layer.in_channels);
    to.placed_bytes = padded_depth((layer.height + 2 * layer.padding) * to.placed_stride);
  }
  to.by_row_run = make_divider(to.row_run);
}

void describe_patches(const Layer& layer, DeviceLayer& to) {
  const bool pooled = layer.pooling == Pooling::Max2x2;
  to.kernel_run = layer.kernel * layer.in_channels;
  to.groups = (to.positions + 3) / 4;
  to.pooled_width = pooled ? layer.out_width() / 2 : layer.out_width();
  to.by_kernel_run = make_divider(to.kernel_run);
  to.by_groups = make_divider(to.groups);
  to.by_pooled_width = make_divider(to.pooled_width);
}

void describe_gradient(DeviceLayer& to, DeviceNetwork& network) {
  to.backpropagated = true;
  to.kept = network.kept_bytes;
  to.error = network.error_bytes;
  to.error_stride = padded_depth(to.outputs);
  to.gradient = network.gradient_count;
  to.first_tile = network.gradient_tiles;
  to.tiles_across = divide_up(to.depth, kTileInputs);
  to.tiles = to.tiles_across * divide_up(to.out_channels, kTileChannels);
  to.by_tiles_across = make_divider(to.tiles_across);
  network.kept_bytes += to.panel_stride;
  network.error_bytes += to.error_stride;
  network.gradient_count += to.weight_count;
  network.gradient_tiles += to.tiles;
}

}  // namespace

Divider make_divider(std::int32_t by) {
  Divider out;
  out.by = static_cast<std::uint32_t>(by);
  while (std::uint64_t{1} << out.shift < out.by) ++out.shift;
  out.factor = static_cast<std::uint32_t>(
      (std::uint64_t{1} << 32) * ((std::uint64_t{1} << out.shift) - out.by) / out.by + 1);
  return out;
}

DeviceNetwork make_device_network(const Network& network, std::int32_t boundary,
                                  std::int32_t perturbed, std::int32_t streams,
                                  bool backpropagates) {
  const std::int32_t features = network.feature_layers();
  require(!backpropagates || boundary >= features, "--bp-layers",
          "on a CUDA device only linear layers support backpropagation, from layer ", features,
          " on; got layer ", boundary, ": use --device cpu or fewer layers with backpropagation");
  DeviceNetwork out;
  out.count = network.layer_count();
  out.features = features;
  out.boundary = boundary;
  out.streams = streams;
  for (std::int32_t l = 0; l < out.count; ++l) {
    const Layer& layer = network.layers[static_cast<std::size_t>(l)];
    DeviceLayer& to = out.layers[l];
    to.kind = layer.kind;
    to.pooling = layer.pooling;
    to.relu = layer.relu;
    to.perturbed = l < perturbed && streams > 1;
    to.in_channels = layer.in_channels;
    to.out_channels = layer.out_channels;
    to.depth = layer.depth();
    to.panel_stride = padded_depth(layer.depth());
    to.inputs = layer.inputs();
    to.outputs = layer.outputs();
    to.positions = layer.positions();
    to.weights = network.offsets[static_cast<std::size_t>(l)];
    to.weight_count = layer.weight_count();
    to.by_depth = make_divider(to.depth);
    const std::int64_t panel = std::int64_t{to.out_channels} * to.panel_stride;
    to.panel = out.panel_bytes;
    to.panel_size = to.perturbed ? panel : 0;
    out.panel_bytes += to.perturbed ? streams * panel : panel;
    to.patch_stride = to.panel_stride + (to.panel_stride / kDepthStep % 2 == 0 ? kDepthStep : 0);
    to.by_patch_words = make_divider(to.panel_stride / 4);
    to.by_patch_vectors = make_divider(to.panel_stride / kDepthStep);
    if (layer.kind != LayerKind::Points) place_rows(layer, to);
    if (layer.kind == LayerKind::Convolution) describe_patches(layer, to);
    if (backpropagates && l >= boundary) describe_gradient(to, out);
  }
  return out;
}

}  // namespace triaccel::int8::cuda
