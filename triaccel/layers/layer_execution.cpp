#include "triaccel/layers/layer_execution.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/layers/layer_nodes.h"

namespace triaccel {

LayerExecution::LayerExecution(std::vector<at::Tensor> weights, KernelChoices kernels,
                               at::Tensor scales, bool device_has_bf16)
    : weights_(std::move(weights)),
      kernels_(std::move(kernels)),
      scales_(std::move(scales)),
      device_has_bf16_(device_has_bf16) {
  if (kernels_.layers.empty()) kernels_.layers.resize(weights_.size());
  for (std::size_t i = 0; i < weights_.size(); ++i)
    by_address_.emplace(weights_[i].const_data_ptr(), static_cast<std::int64_t>(i));
  expect_other_gradients();
  follow({weights_.size(), LayerPlan{}}, 1);
}

LayerExecution::~LayerExecution() {
  for (const auto& [index, hook] : hooks_) weights_[index].remove_hook(hook);
}

void LayerExecution::expect_other_gradients() {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!weights_[i].requires_grad()) continue;
    const unsigned hook = weights_[i].register_hook([this, i](const at::Tensor&) {
      at::Tensor& held = weights_[i].mutable_grad();
      const at::NoGradGuard no_grad;
      if (held.defined()) held = wide_gradient(held, scales_, static_cast<std::int64_t>(i));
    });
    hooks_.emplace_back(i, hook);
  }
}

void LayerExecution::follow(const std::vector<LayerPlan>& layers, std::int64_t passes) {
  if (layers == followed_ && (passes > 1) == accumulates_) return;
  ensure(layers.size() == weights_.size(), "a plan has an entry for every layer");
  followed_ = layers;
  accumulates_ = passes > 1;
  const bool any_low = std::ranges::any_of(
      layers, [](const LayerPlan& layer) { return bytes_per_element(layer.compute) < 4; });
  carrier_ = !any_low ? at::kFloat : device_has_bf16_ ? at::kBFloat16 : at::kHalf;
  arithmetic_.clear();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    arithmetic_.push_back({.layer = layer,
                           .precision = layers[i].compute,
                           .kernel = kernels_.of(layer, layers[i].compute),
                           .carrier = carrier_,
                           .accumulate = accumulates_,
                           .scales = scales_});
  }
}

std::int64_t LayerExecution::layer_of(const at::Tensor& weight) const {
  const auto found = by_address_.find(weight.const_data_ptr());
  return found == by_address_.end() ? -1 : found->second;
}

bool LayerExecution::is_whole(const at::Tensor& view, std::int64_t layer) const {
  const at::Tensor& weight = weights_[static_cast<std::size_t>(layer)];
  return view.sizes() == weight.sizes() && view.strides() == weight.strides();
}

bool LayerExecution::owns(const at::Tensor& matrix) const {
  const std::int64_t layer = layer_of(matrix);
  return layer >= 0 && matrix.dim() == 2 && is_whole(matrix.t(), layer);
}

at::Tensor LayerExecution::convolution(const ConvolutionCall& call) {
  const std::int64_t layer = layer_of(call.weight);
  if (layer < 0 || !is_whole(call.weight, layer)) return OperatorHooks::convolution(call);
  return convolution_layer(call, weights_[static_cast<std::size_t>(layer)],
                           arithmetic_[static_cast<std::size_t>(layer)]);
}

at::Tensor LayerExecution::linear(const LinearCall& call) {
  const std::int64_t layer = layer_of(call.weight);
  if (layer < 0 || !is_whole(call.weight, layer)) return OperatorHooks::linear(call);
  return linear_layer(call, weights_[static_cast<std::size_t>(layer)],
                      arithmetic_[static_cast<std::size_t>(layer)]);
}

at::Tensor LayerExecution::embedding(const at::Tensor& weight, const at::Tensor& indices,
                                     std::int64_t padding_idx, bool scale_grad_by_freq,
                                     bool sparse) {
  return OperatorHooks::embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)
      .to(carrier_);
}

}  // namespace triaccel
