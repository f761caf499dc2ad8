#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "triaccel/device/side_stream.h"

namespace torch::autograd {
struct Edge;
}

namespace triaccel {

/// Sees the gradients that come through autograd to parameters whose layers leave theirs in grad():
/// of weights that the loss reads, too, or that are tied to a table. They add up in FP32.
class OtherGradients : public std::enable_shared_from_this<OtherGradients> {
 public:
  /// `scales` as GradientDelivery.
  OtherGradients(std::size_t layers, at::Tensor scales);

  /// Around each step; `updates` is where layers leave gradients, or null.
  void begin_step(SideStream* updates);
  void end_step();

  /// Called by a node of the layer that has left the parameter's gradient, with its edge to it:
  /// before another one is added to it, it is waited for and widened.
  void watch(const torch::autograd::Edge& edge, const at::Tensor& parameter, std::int64_t layer);

  /// Whether the layer's weight or bias has got another one in a step.
  bool came_to(std::int64_t layer) const { return came_[static_cast<std::size_t>(layer)]; }

 private:
  class Hook;

  void arrives(const at::Tensor& parameter, std::int64_t layer);

  at::Tensor scales_;
  std::vector<bool> came_;
  bool in_step_ = false;
  SideStream* updates_ = nullptr;
};

}  // namespace triaccel
