#include "triaccel/layers/execution/left_gradient.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include "triaccel/base/error.h"
#include "triaccel/ops/tensors/autograd_node.h"

namespace triaccel {
namespace {

namespace autograd = torch::autograd;

/// Autograd calls it before it gives the parameter the sum of what came through the graph, which
/// may be nothing.
class DeliverLeftGradient final : public autograd::FunctionPreHook {
 public:
  DeliverLeftGradient(at::Tensor parameter, LeftGradient left)
      : parameter_(std::move(parameter)), left_(std::move(left)) {}

  autograd::variable_list operator()(const autograd::variable_list& arrived) override {
    const LeftGradient left = std::exchange(left_, {});  // once: who calls it may live on
    if (!left.values.defined()) return arrived;
    at::Tensor& held = parameter_.mutable_grad();
    if (!arrived[0].defined() && !held.defined()) {
      held = left.values;
      return arrived;
    }
    if (left.maker.stream != nullptr) left.maker.stream->join();  // what is held may be from there
    const at::NoGradGuard no_grad;
    return {arrived[0].defined() ? arrived[0] + left.values : left.values};
  }

 private:
  at::Tensor parameter_;
  LeftGradient left_;
};

}  // namespace

bool has_gradient_hooks(const at::Tensor& tensor) {
  return tensor.requires_grad() &&
         (tensor.retains_grad() || !torch::autograd::impl::hooks(tensor).empty());
}

bool has_gradient_hooks(torch::autograd::Node& node) {
  return !node.tensor_pre_hooks().empty() || !node.retains_grad_hooks().empty() ||
         node.tensor_post_acc_grad_hooks() != nullptr;
}

ParameterGradient parameter_gradient_along(const autograd::Edge& edge) {
  if (!edge.is_valid()) return ParameterGradient::Left;  // a view of the weight was called
  autograd::Node& leaf = *edge.function;
  const auto* const wanted = autograd::get_current_graph_task_exec_info();
  if (wanted != nullptr && !wanted->empty()) {
    const auto found = wanted->find(&leaf);
    if (found == wanted->end() || !found->second.should_execute()) return ParameterGradient::None;
    if (found->second.captures_ && !found->second.captures_->empty())
      return ParameterGradient::Sent;
  }
  const bool hooked = has_gradient_hooks(leaf) || !leaf.post_hooks().empty();
  return hooked ? ParameterGradient::Sent : ParameterGradient::Left;
}

void require_single_backward() {
  require(!at::GradMode::is_enabled(), "create_graph",
          "layers in a planned precision cannot be differentiated twice; attach with "
          "precision=\"off\" for gradients of gradients");
}

std::shared_ptr<TakesGradient> TakesGradient::behind(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.grad_fn() || has_gradient_hooks(tensor)) return nullptr;
  return node_as<TakesGradient>(tensor.grad_fn());
}

void leave_for_parameter(const autograd::Edge& edge, const at::Tensor& parameter,
                         LeftGradient gradient) {
  edge.function->add_pre_hook(
      std::make_unique<DeliverLeftGradient>(parameter, std::move(gradient)));
}

}  // namespace triaccel
