#include "python/bindings/group_optimizer.h"

#include <ATen/ATen.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/ops/tensors/tensor_check.h"
#include "triaccel/ops/tensors/tensor_state.h"
#include "triaccel/optim/named_states.h"

namespace triaccel::python {
namespace {

constexpr std::string_view kWho = "triaccel.optim";

/// Hides or replaces gradients until it is destroyed.
class GradientsInPlaceOf {
 public:
  GradientsInPlaceOf() = default;
  GradientsInPlaceOf(const GradientsInPlaceOf&) = delete;
  GradientsInPlaceOf& operator=(const GradientsInPlaceOf&) = delete;
  ~GradientsInPlaceOf() {
    for (auto& [parameter, gradient] : kept_) parameter.mutable_grad() = std::move(gradient);
  }
  void replace(const at::Tensor& parameter, at::Tensor gradient) {
    kept_.emplace_back(parameter, parameter.grad());
    kept_.back().first.mutable_grad() = std::move(gradient);
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;
};

/// A gradient in the memory order that the kernels need.
at::Tensor in_order_of(const at::Tensor& gradient, const at::Tensor& parameter) {
  return at::empty_like(parameter.detach(), gradient.options()).copy_(gradient);
}

kernels::Moment kind_of(std::size_t moment) {
  return moment == 0 ? kernels::Moment::First : kernels::Moment::Second;
}

}  // namespace

GroupOptimizer::GroupOptimizer(std::vector<ParameterGroup> groups, std::int64_t layer_count) {
  for (ParameterGroup& group : groups) {
    for (std::size_t i = 0; i < group.parameters.size(); ++i)
      slots_.push_back({group.parameters[i], groups_.size(), i});
    groups_.emplace_back().options = group.options;
  }
  require(!slots_.empty(), kWho, "there is no parameter to train");
  const at::TensorOptions on_device =
      at::TensorOptions(at::kFloat).device(slots_.front().parameter.tensor.device());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Group& group = groups_[i];
    if (groups[i].parameters.empty()) continue;
    group.options.seed += i;  // rounding noise differs between groups
    group.optimizer = make_moment_optimizer(group.options, std::move(groups[i].parameters));
    group.moments = group.optimizer->moments();
    group.rate = at::zeros({}, on_device);
    group.rates = at::zeros({layer_count}, on_device);
  }
  counts_ = at::zeros({static_cast<std::int64_t>(slots_.size())}, at::kFloat);
  factors_ = at::ones({layer_count}, on_device);
  const kernels::StepControl control = {};
  at::Tensor bytes = at::empty({std::int64_t{sizeof(control)}}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), &control, sizeof(control));
  step_control_ = bytes.to(on_device.device());
}

void GroupOptimizer::set_group(std::size_t index, const OptimizerOptions& options,
                               double learning_rate) {
  Group& group = groups_.at(index);
  if (!group.optimizer) return;
  group.optimizer->set_options(options);
  if (group.learning_rate != learning_rate) group.rate.fill_(learning_rate);
  group.learning_rate = learning_rate;
}

void GroupOptimizer::update(const UpdateInputs& inputs) {
  for (Group& group : groups_) {
    if (!group.optimizer) continue;
    UpdateInputs of_group = inputs;
    at::mul_out(group.rates, inputs.learning_rates, group.rate);
    of_group.learning_rates = group.rates;
    group.optimizer->update(of_group);
  }
}

void GroupOptimizer::step() {
  GradientsInPlaceOf ordered;
  std::map<std::int64_t, std::vector<std::size_t>> by_count;  // parameters with a gradient
  auto* const counts = counts_.mutable_data_ptr<float>();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const ParameterRef& parameter = slots_[i].parameter;
    const at::Tensor& gradient = parameter.tensor.grad();
    if (!gradient.defined()) continue;
    require(gradient.layout() == at::kStrided, kWho, "the gradient of '", parameter.name,
            "' is sparse; use torch.optim.SparseAdam for it");
    by_count[static_cast<std::int64_t>(counts[i])].push_back(i);
    if (!same_memory_order(gradient, parameter.tensor))
      ordered.replace(parameter.tensor, in_order_of(gradient, parameter.tensor));
  }
  for (const auto& [count, now] : by_count) {
    GradientsInPlaceOf hidden;
    for (const auto& [other, later] : by_count)
      if (other != count)
        for (const std::size_t i : later) hidden.replace(slots_[i].parameter.tensor, {});
    step_at(count + 1);
  }
  for (const auto& [count, parameters] : by_count)
    for (const std::size_t i : parameters) {
      counts[i] = static_cast<float>(count + 1);
      slots_[i].parameter.tensor.unsafeGetTensorImpl()->bump_version();
    }
}

void GroupOptimizer::set_factors(const std::vector<float>& factors) {
  require(std::ssize(factors) == factors_.numel(), "set_factors", "there are ", factors_.numel(),
          " layers, got ", factors.size(), " factors");
  factors_.copy_(at::tensor(factors));
}

void GroupOptimizer::step_at(std::int64_t number) {
  constexpr std::int64_t where = offsetof(kernels::StepControl, applied_steps);
  step_control_.narrow(0, where, sizeof(number)).view(at::kLong).fill_(number);
  update({.learning_rates = factors_,
          .step_control = step_control_,
          .layer_scales = {},
          .moments = {}});
}

std::vector<at::Tensor> GroupOptimizer::moments(std::size_t parameter) const {
  const Slot& slot = slots_.at(parameter);
  std::vector<at::Tensor> tensors;
  for (const auto& moment : groups_[slot.group].moments) tensors.push_back(moment[slot.index]);
  return tensors;
}

std::vector<at::Tensor> GroupOptimizer::moment_values(std::size_t parameter) const {
  const Slot& slot = slots_.at(parameter);
  std::vector<at::Tensor> tensors = moments(parameter);
  if (groups_[slot.group].options.state != StateFormat::Fp8) return tensors;
  for (std::size_t m = 0; m < tensors.size(); ++m) {
    const StateView view = quantized_state("", tensors[m], kind_of(m), slot.parameter.tensor);
    at::Tensor values = at::empty(view.shape, at::kFloat);
    std::memcpy(values.mutable_data_ptr(), view.bytes.data(), view.bytes.size());
    tensors[m] = at::empty_like(slot.parameter.tensor.detach()).copy_(values);
  }
  return tensors;
}

void GroupOptimizer::load_moment(std::size_t parameter, std::size_t moment,
                                 const at::Tensor& values) {
  const Slot& slot = slots_.at(parameter);
  const OptimizerOptions& options = groups_[slot.group].options;
  at::Tensor into = groups_[slot.group].moments.at(moment).at(slot.index);
  if (values.scalar_type() == into.scalar_type() && values.sizes() == into.sizes()) {
    into.copy_(values);
    return;
  }
  require(values.is_floating_point() && values.sizes() == slot.parameter.tensor.sizes(), kWho,
          "the state of '", slot.parameter.name, "' has shape ", values.sizes(), ", expected ",
          slot.parameter.tensor.sizes());
  const StateMap saved = {{"", tensor_state("", values.detach().to(at::kCPU, at::kFloat))}};
  restore_quantized_state(into, kind_of(moment), slot.parameter.tensor, saved, "",
                          state_noise_seed(options));
}

std::int64_t GroupOptimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const Group& group : groups_) bytes += group.optimizer ? group.optimizer->state_bytes() : 0;
  return bytes;
}

std::int64_t GroupOptimizer::host_state_bytes() const {
  std::int64_t bytes = 0;
  for (const Group& group : groups_)
    bytes += group.optimizer ? group.optimizer->host_state_bytes() : 0;
  return bytes;
}

std::vector<StateView> GroupOptimizer::state() const {
  std::vector<StateView> states;
  for (const Group& group : groups_)
    if (group.optimizer)
      for (StateView& view : group.optimizer->state()) states.push_back(std::move(view));
  return states;
}

void GroupOptimizer::restore(const StateMap& saved) {
  for (Group& group : groups_)
    if (group.optimizer) group.optimizer->restore(saved);
}

}  // namespace triaccel::python
