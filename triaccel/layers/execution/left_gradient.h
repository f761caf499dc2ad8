#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <utility>

#include "triaccel/device/side_stream.h"

namespace triaccel {

/// True if the tensor has gradient hooks or retain_grad.
bool has_gradient_hooks(const at::Tensor& tensor);

/// The same of a tensor that is a node's output, or that a node gives its gradient to.
bool has_gradient_hooks(torch::autograd::Node& node);

/// Where the gradient of a layer's weight or bias goes.
enum class ParameterGradient {
  None,  // nowhere: this backward pass is about other tensors
  Left,  // into grad(), past autograd, as GradientDelivery says
  Sent,  // through autograd's graph, in FP32: to torch.autograd.grad, or past hooks of the user's
};

/// For the edge from a layer's node to its weight or bias.
ParameterGradient parameter_gradient_along(const torch::autograd::Edge& edge);

/// UsageError where a backward pass is recorded to be differentiated once more: our nodes compute
/// what autograd does not see.
void require_single_backward();

/// A gradient that one node leaves with another instead of sending it through the graph.
struct LeftGradient {
  at::Tensor values = {};       // undefined: none
  SideStream::Work maker = {};  // to wait for before they are read; none: the main stream made them
};

/// A node that adds up two gradients of its output by itself: one comes through the graph, the
/// other is left here by a node that computed it. Autograd would add them in a kernel of its own.
/// What is left may be the map's even pixels alone (as even_pixels gives them), the others zero.
class TakesGradient : public torch::autograd::Node {
 public:
  /// False: there is one already, and this one must go through the graph.
  bool leave(LeftGradient gradient) {
    if (left_.values.defined()) return false;
    left_ = std::move(gradient);
    return true;
  }

  /// The node that made `tensor`, if it takes gradients and the tensor has no gradient hooks;
  /// else null.
  static std::shared_ptr<TakesGradient> behind(const at::Tensor& tensor);

 protected:
  LeftGradient left_;  // the owner's apply() takes it away
};

/// Gives `parameter`, a leaf, a gradient that the node with this edge to it does not send through
/// the graph, when all who use the parameter have been differentiated: no update may take a part of
/// it. Where another one is there already or comes through the graph, what made this one is waited
/// for.
void leave_for_parameter(const torch::autograd::Edge& edge, const at::Tensor& parameter,
                         LeftGradient gradient);

/// The node of a map that was made on a Branch, and that is differentiated there as well.
class OnBranch {
 public:
  virtual ~OnBranch() = default;
  /// False: there is one already, and this one must go through the graph.
  virtual bool leave_on_branch(LeftGradient gradient) = 0;
};

}  // namespace triaccel
