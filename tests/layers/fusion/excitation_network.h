#pragma once

#include <torch/torch.h>

#include <cmath>
#include <string>
#include <vector>

#include "triaccel/layers/execution/layer_execution.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/ops/update/layer_scales.h"

namespace triaccel {

struct ExcitedPass {
  double loss = 0;
  std::vector<std::string> names = {};
  std::vector<at::Tensor> gradients = {};  // FP64, by parameter
};

/// One pass of EfficientNet-B0, its layers' precisions in turn; `joined`: as ExcitationFusion
/// computes it, else operator by operator.
inline ExcitedPass efficientnet_pass(at::Device device, std::int64_t width, std::int64_t batch,
                                     const std::vector<Precision>& precisions, bool joined) {
  torch::manual_seed(6);
  const Network network = make_model({.name = "efficientnet-b0", .width = width});
  network.module->to(device);
  std::vector<at::Tensor> weights;
  std::vector<LayerPlan> plan;
  for (at::Tensor& parameter : network.module->parameters())
    if (parameter.dim() == 4)
      parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
  const auto named = network.module->named_parameters();
  for (const LayerInfo& layer : network.layers.layers()) {
    plan.push_back({.compute = precisions[plan.size() % precisions.size()]});
    weights.push_back(named[layer.parameters.front()]);
  }
  const at::Tensor scales = make_layer_scales(device, network.layers.size());
  LayerExecution execution(weights, {}, scales, {.fuse = true, .keep_relu_masks = !joined});
  execution.follow(plan, 1);
  const at::Tensor images =
      at::randn({batch, 3, 32, 32}).to(device).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor targets = at::randint(10, {batch}, at::kLong).to(device);
  torch::manual_seed(7);  // of what is dropped
  execution.begin_step(nullptr, nullptr);
  at::Tensor logits;
  {
    const OperatorScope scope(execution);
    execution.begin_pass();
    logits = network.forward(images);
    execution.end_pass();
  }
  const at::Tensor loss = at::cross_entropy_loss(logits.to(at::kFloat), targets);
  loss.backward();
  execution.end_step();
  ExcitedPass result{.loss = loss.item<double>()};
  for (const auto& item : named) {
    at::Tensor gradient = item.value().grad();
    const std::int64_t layer = network.layers.layer_of(item.key());
    if (gradient.scalar_type() == at::kHalf) gradient = gradient.to(at::kFloat) / scales[layer][0];
    result.names.push_back(item.key());
    result.gradients.push_back(gradient.to(at::kDouble).cpu());
  }
  return result;
}

/// The distance of all gradients together, in norms of `truth`.
inline double distance(const ExcitedPass& found, const ExcitedPass& truth) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < truth.gradients.size(); ++i) {
    error += (found.gradients[i] - truth.gradients[i]).square().sum().item<double>();
    norm += truth.gradients[i].square().sum().item<double>();
  }
  return std::sqrt(error / norm);
}

}  // namespace triaccel
