#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <memory>

namespace triaccel {

/// A node that adds up two gradients of its output by itself: one comes through the graph, the
/// other is left here by a node that computed it. Autograd would add them in a kernel of its own.
/// What is left may be the map's even pixels alone (as even_pixels gives them), the others zero.
class TakesGradient : public torch::autograd::Node {
 public:
  /// False: there is one already, and this one must go through the graph.
  bool leave(const at::Tensor& gradient) {
    if (left_.defined()) return false;
    left_ = gradient;
    return true;
  }

  /// The node that made `tensor`, if it takes gradients and nobody listens to this tensor's; else
  /// null.
  static std::shared_ptr<TakesGradient> behind(const at::Tensor& tensor);

 protected:
  at::Tensor left_;  // the owner's apply() takes it away
};

}  // namespace triaccel
