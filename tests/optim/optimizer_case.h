#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "triaccel/optim/gradient_control.h"
#include "triaccel/optim/optimizer.h"

namespace triaccel {

/// The optimizers that are made of moments, their state in every format.
inline std::vector<OptimizerOptions> every_moment_optimizer() {
  std::vector<OptimizerOptions> all;
  for (const OptimizerKind kind : {OptimizerKind::Sgd, OptimizerKind::AdamW})
    for (const StateFormat state : {StateFormat::Fp32, StateFormat::Fp8, StateFormat::Host})
      all.push_back({.kind = kind, .state = state});
  return all;
}

inline std::vector<OptimizerOptions> every_optimizer() {
  std::vector<OptimizerOptions> all = every_moment_optimizer();
  for (const OptimizerKind kind : {OptimizerKind::AdaLomo, OptimizerKind::ApolloMini})
    all.push_back({.kind = kind});
  return all;
}

/// For the name of a test.
inline std::string optimizer_text(const OptimizerOptions& options) {
  std::string name(optimizer_name(options.kind));
  std::ranges::replace(name, '-', '_');
  switch (options.state) {
    case StateFormat::Fp32:
      return name + "_fp32";
    case StateFormat::Fp8:
      return name + "_fp8";
    case StateFormat::Host:
      return name + "_host";
  }
  return name;
}

/// A few parameters in two layers, one of them channels-last, and a copy for a reference to train.
struct OptimizerCase {
  std::vector<ParameterRef> ours;
  std::vector<at::Tensor> reference;
  at::Tensor learning_rates;

  explicit OptimizerCase(at::Device device = at::kCPU) {
    at::manual_seed(3);
    std::vector<at::Tensor> values = {
        at::randn({8, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast), at::randn({8}),
        at::randn({5000}), at::randn({17, 31}), at::randn({})};
    for (std::size_t i = 0; i < values.size(); ++i) {
      ours.push_back({"p" + std::to_string(i), values[i].to(device).clone().requires_grad_(),
                      static_cast<std::int64_t>(i / 3)});
      reference.push_back(values[i].to(device).clone().requires_grad_());
    }
    learning_rates = at::tensor({0.1f, 0.1f}).to(device);
  }

  /// The same random gradients for both, multiplied by `scale` for ours alone.
  void draw_gradients(double scale = 1) {
    for (std::size_t i = 0; i < ours.size(); ++i) {
      reference[i].mutable_grad() = at::randn_like(reference[i]).detach();
      ours[i].tensor.mutable_grad() = reference[i].grad() * scale;
    }
  }

  /// Hands `visit` the gradients a few at a time, from the last to the first as backward does: the
  /// others are not there, and those it has seen are dropped.
  template <typename Visit>
  void release_gradients(Visit visit) {
    std::vector<at::Tensor> waiting;
    for (const ParameterRef& parameter : ours)
      waiting.push_back(std::exchange(parameter.tensor.mutable_grad(), at::Tensor()));
    for (std::size_t end = ours.size(); end > 0;) {
      const std::size_t begin = end > 2 ? end - 2 : 0;
      for (std::size_t i = begin; i < end; ++i) ours[i].tensor.mutable_grad() = waiting[i];
      visit();
      for (std::size_t i = begin; i < end; ++i) ours[i].tensor.mutable_grad().reset();
      end = begin;
    }
  }

  double largest_difference() const {
    double largest = 0;
    for (std::size_t i = 0; i < ours.size(); ++i)
      largest = std::max(largest, (ours[i].tensor - reference[i]).abs().max().item<double>());
    return largest;
  }

  std::vector<at::Tensor> copies() const {
    std::vector<at::Tensor> tensors;
    for (const ParameterRef& parameter : ours) tensors.push_back(parameter.tensor.detach().clone());
    return tensors;
  }

  bool equals(const std::vector<at::Tensor>& copies) const {
    for (std::size_t i = 0; i < ours.size(); ++i)
      if (!at::equal(ours[i].tensor, copies[i])) return false;
    return true;
  }
};

inline StateMap saved_state(const Stateful& part) {
  StateMap map;
  for (StateView& view : part.state()) {
    // A checkpoint holds copies: later changes of the part do not reach it.
    auto copy = std::make_shared<std::vector<std::byte>>(view.bytes.begin(), view.bytes.end());
    view.bytes = *copy;
    view.owner = copy;
    map[view.name] = view;
  }
  return map;
}

}  // namespace triaccel
