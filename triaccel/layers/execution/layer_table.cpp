#include "triaccel/layers/execution/layer_table.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/ops/tensors/tensor_bundle.h"

namespace triaccel {

LayerTable::LayerTable(std::vector<at::Tensor> weights, KernelChoices kernels, at::Tensor scales,
                       const LayerExecutionOptions& options,
                       const std::shared_ptr<OtherGradients>& others)
    : kernels_(std::move(kernels)), options_(options) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    by_address_.emplace(weights[i].const_data_ptr(), i);
    layers_.push_back({.number = number,
                       .weight = weights[i],
                       .gradients = {.layer = number, .scales = scales, .others = others}});
  }
  if (kernels_.layers.empty()) kernels_.layers.resize(weights.size());
  if (options.prepare_weights) prepared_ = std::make_unique<PreparedWeights>(std::move(weights));
  follow({layers_.size(), LayerPlan{}}, 1);
}

void LayerTable::follow(const std::vector<LayerPlan>& plans, std::int64_t passes) {
  if (plans == followed_ && (passes > 1) == accumulates_) return;
  ensure(plans.size() == layers_.size(), "a plan has an entry for every layer");
  followed_ = plans;
  accumulates_ = passes > 1;
  const bool any_low = std::ranges::any_of(
      plans, [](const LayerPlan& plan) { return bytes_per_element(plan.compute) < 4; });
  carrier_ = !any_low ? at::kFloat : options_.device_has_bf16 ? at::kBFloat16 : at::kHalf;
  for (Layer& layer : layers_) {
    const Precision precision = plans[static_cast<std::size_t>(layer.number)].compute;
    layer.arithmetic = {.precision = precision,
                        .kernel = kernels_.of(layer.number, precision),
                        .carrier = carrier_,
                        .prepared = prepared_.get(),
                        .recompute_norms = options_.recompute_norms};
    layer.gradients.accumulate = accumulates_;
    layer.gradients.side = nullptr;
    layer.gradients.listener = nullptr;
  }
  if (prepared_) prepared_->expect_nothing();
}

void LayerTable::begin_step(SideStream* side, GradientListener* listener) {
  for (Layer& layer : layers_) {
    layer.gradients.side = side;
    layer.gradients.listener = listener;
  }
  if (prepared_) prepared_->make(side);
}

void LayerTable::place_sums(const WeightUses& uses) {
  const MemoryPurposeScope purpose(MemoryPurpose::Gradients);
  const auto is_summed = [&](const Layer& layer) {
    return layer.weight.requires_grad() && uses.was_used(layer.number);
  };
  std::vector<at::Tensor> weights;
  for (const Layer& layer : layers_)
    if (is_summed(layer)) weights.push_back(layer.weight);
  if (weights.empty()) return;
  std::vector<at::Tensor> sums = in_flat_buffer(weights, weights.front().device());
  auto next = sums.begin();
  for (Layer& layer : layers_)
    if (is_summed(layer)) layer.gradients.sum = std::move(*next++);
}

void LayerTable::end_step() {
  for (Layer& layer : layers_) {
    layer.gradients.sum.reset();
    layer.gradients.side = nullptr;  // passes outside of steps join nothing
    layer.gradients.listener = nullptr;
  }
  if (prepared_) prepared_->drop();
}

void LayerTable::join_copies() {
  if (prepared_) prepared_->join();
}

const Layer* LayerTable::find(const at::Tensor& weight) const {
  const auto found = by_address_.find(weight.const_data_ptr());
  if (found == by_address_.end()) return nullptr;
  const Layer& layer = layers_[found->second];
  const bool is_whole =
      weight.sizes() == layer.weight.sizes() && weight.strides() == layer.weight.strides();
  return is_whole ? &layer : nullptr;
}

const Layer* LayerTable::find_transposed(const at::Tensor& matrix) const {
  const bool known = matrix.dim() == 2 && by_address_.contains(matrix.const_data_ptr());
  return known ? find(matrix.t()) : nullptr;
}

}  // namespace triaccel
