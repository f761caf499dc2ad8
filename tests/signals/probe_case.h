#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "triaccel/models/network.h"
#include "triaccel/signals/curvature_probe.h"

namespace triaccel {

/// A network as the probe sees it; it shares the module's tensors.
inline ProbeNetwork probe_network(const Network& network) {
  ProbeNetwork probed{.forward = network.forward, .buffers = network.module->buffers()};
  const auto named = network.module->named_parameters();
  for (const auto& parameter : named)
    probed.parameters.push_back(
        {parameter.key(), parameter.value(), network.layers.layer_of(parameter.key())});
  for (const LayerInfo& layer : network.layers.layers())
    probed.weights.push_back(named[layer.parameters.front()]);
  return probed;
}

/// A module, its probe's view of it, and samples.
template <class M>
struct ProbeCase {
  ProbeCase(std::shared_ptr<M> own, at::Tensor x, at::Tensor y)
      : module(std::move(own)),
        network(probe_network(as_network(module, "case"))),
        inputs(std::move(x)),
        targets(std::move(y)) {}

  CurvatureReport run(const CurvatureOptions& options) const {
    return CurvatureProbe(network, options, at::kCPU).run(inputs, targets, kSmoothing, 7);
  }

  at::Tensor loss(const at::Tensor& logits, const at::Tensor& classes) const {
    return torch::nn::functional::cross_entropy(
        logits.reshape({-1, logits.size(-1)}), classes.reshape({-1}),
        torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(kSmoothing));
  }

  static constexpr double kSmoothing = 0.1;
  std::shared_ptr<M> module;
  ProbeNetwork network;
  at::Tensor inputs, targets;
};

/// The parameters in `wanted` as one row: a gradient, zeros where the loss does not depend on one.
inline at::Tensor gradient_row(const at::Tensor& loss, const std::vector<at::Tensor>& wanted,
                               bool create_graph = false) {
  const auto parts = torch::autograd::grad({loss}, wanted, {}, true, create_graph, true);
  std::vector<at::Tensor> flat;
  for (std::size_t i = 0; i < parts.size(); ++i)
    flat.push_back((parts[i].defined() ? parts[i] : at::zeros_like(wanted[i])).flatten());
  return at::cat(flat);
}

inline void expect_close(const std::vector<double>& found, const at::Tensor& expected,
                         double tolerance, const std::string& where) {
  ASSERT_EQ(static_cast<std::int64_t>(found.size()), expected.numel()) << where;
  const double scale = expected.abs().max().item<double>();
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[static_cast<std::int64_t>(i)].item<double>(), tolerance * scale)
        << where << ", eigenvalue " << i;
}

}  // namespace triaccel
