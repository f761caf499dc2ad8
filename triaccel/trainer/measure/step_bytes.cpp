#include "triaccel/trainer/measure/step_bytes.h"

#include <algorithm>

#include "triaccel/base/error.h"
#include "triaccel/int8/training/step_memory.h"

namespace triaccel {
namespace {

constexpr std::int64_t kFloat = 4;  // bytes

/// What one layer has, in elements; buffers are of one sample.
struct LayerSize {
  std::int64_t parameters = 0;
  std::int64_t inputs = 0;
  std::int64_t map = 0;      // output of its product
  std::int64_t outputs = 0;  // after pooling
  std::int64_t buffers = 0;  // of product, norm, ReLU and pool together
  bool pooled = false;
};

LayerSize fp32_size(const int8::Layer& layer, bool norms) {
  const bool normed = norms && layer.kind == int8::LayerKind::Points;
  LayerSize size{.inputs = layer.inputs(),
                 .map = std::int64_t{layer.positions()} * layer.out_channels,
                 .outputs = layer.outputs(),
                 .pooled = layer.pooling != int8::Pooling::None};
  // A norm has a factor and an offset a channel, in the place of a bias.
  size.parameters = layer.weight_count() + (normed ? 2 : 1) * std::int64_t{layer.out_channels};
  size.buffers = size.map * (1 + (normed ? 1 : 0) + (layer.relu ? 1 : 0));
  if (size.pooled) size.buffers += size.outputs;
  return size;
}

/// Each layer is one fused operation on a batch: input, raw output and pooled output live at once
/// in the forward pass; inputs of backpropagated layers live until their gradients are done.
std::int64_t fp32_liveness(const CountedStep& step) {
  const auto count = static_cast<std::int64_t>(step.network.layers.size());
  const std::int64_t boundary = count - step.bp_layers;
  std::int64_t parameters = 0, stored = 0, peak = 0;
  for (std::int64_t l = 0; l < count; ++l) {
    const LayerSize size = fp32_size(step.network.layers[static_cast<std::size_t>(l)], step.norms);
    parameters += size.parameters;
    const std::int64_t working = size.map + (size.pooled ? size.outputs : 0);
    peak = std::max(peak, step.batch * (stored + size.inputs + working));
    if (l >= boundary) stored += size.inputs;
  }
  for (std::int64_t l = boundary; l < count; ++l) {
    const LayerSize size = fp32_size(step.network.layers[static_cast<std::size_t>(l)], step.norms);
    const std::int64_t errors = size.map + (size.pooled ? size.outputs : 0) +
                                (l > boundary ? size.inputs : 0);  // none goes below the boundary
    peak = std::max(peak, step.batch * (stored + errors) + size.parameters);
  }
  return kFloat * (parameters + peak);
}

std::int64_t fp32_sum(const CountedStep& step, bool shared_errors) {
  const auto count = static_cast<std::int64_t>(step.network.layers.size());
  std::int64_t elements = 0;
  for (std::int64_t l = 0; l < count; ++l) {
    const LayerSize size = fp32_size(step.network.layers[static_cast<std::size_t>(l)], step.norms);
    elements += size.parameters + step.batch * size.buffers;
    if (l < count - step.bp_layers) continue;
    elements += size.parameters;
    if (!shared_errors || l == count - 1) elements += step.batch * size.buffers;
  }
  return kFloat * elements;
}

void check(const CountedStep& step) {
  require(step.batch >= 1 && step.batch <= 1 << 24, "--batch", "must lie in [1, 2^24], got ",
          step.batch);
  require(step.bp_layers >= 0 && step.bp_layers <= step.network.layer_count(), "--bp-layers",
          "must lie in [0, ", step.network.layer_count(), "], got ", step.bp_layers);
}

}  // namespace

std::int64_t fp32_step_bytes(const CountedStep& step, ByteCount count) {
  check(step);
  switch (count) {
    case ByteCount::Sum:
      return fp32_sum(step, /*shared_errors=*/false);
    case ByteCount::SumSharedErrors:
      return fp32_sum(step, /*shared_errors=*/true);
    case ByteCount::Liveness:
      return fp32_liveness(step);
  }
  return 0;
}

std::int64_t int8_step_bytes(const CountedStep& step, ByteCount count,
                             const int8::StepOptions& options) {
  check(step);
  const auto batch = static_cast<std::int32_t>(step.batch);
  const auto bp_layers = static_cast<std::int32_t>(step.bp_layers);
  switch (count) {
    case ByteCount::Sum:
      return int8::paper_bytes(step.network, batch, bp_layers);
    case ByteCount::SumSharedErrors: {
      std::int64_t bytes = int8::paper_bytes(step.network, batch, 0);
      for (std::int32_t l = step.network.layer_count() - bp_layers; l < step.network.layer_count();
           ++l)
        bytes += 5 * step.network.layers[static_cast<std::size_t>(l)].weight_count();
      return bytes + (bp_layers > 0 ? step.batch * step.network.classes() : 0);
    }
    case ByteCount::Liveness: {
      int8::StepOptions with_layers = options;
      with_layers.bp_layers = bp_layers;
      return int8::step_memory(step.network, batch, with_layers).total();
    }
  }
  return 0;
}

}  // namespace triaccel
