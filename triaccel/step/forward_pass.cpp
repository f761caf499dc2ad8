#include "triaccel/step/forward_pass.h"

#include <ATen/autocast_mode.h>

#include "triaccel/saved/saved_tensor_engine.h"

namespace triaccel {
namespace {

/// torch's autocast for this scope, when `on`. Its cache of cast weights is emptied at the end, as
/// Python's context manager does: the weights change in between.
class [[nodiscard]] AutocastScope {
 public:
  AutocastScope(bool on, c10::DeviceType device, c10::ScalarType type) : on_(on), device_(device) {
    if (!on_) return;
    was_enabled_ = at::autocast::is_autocast_enabled(device);
    previous_type_ = at::autocast::get_autocast_dtype(device);
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::set_autocast_dtype(device, type);
    at::autocast::increment_nesting();
  }
  ~AutocastScope() {
    if (!on_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, previous_type_);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool on_;
  c10::DeviceType device_;
  bool was_enabled_ = false;
  c10::ScalarType previous_type_ = c10::ScalarType::Half;
};

}  // namespace

std::vector<at::Tensor> constants_of(const StepNetwork& network) {
  std::vector<at::Tensor> all = network.buffers;
  for (const ParameterRef& parameter : network.parameters) all.push_back(parameter.tensor);
  return all;
}

at::Tensor forward_pass(const std::function<at::Tensor()>& forward, c10::DeviceType device,
                        const ForwardRules& rules) {
  const AutocastScope autocast(rules.autocast, device, rules.autocast_type);
  if (rules.layers == nullptr) return forward();
  const OperatorScope scope(*rules.layers);
  const UserHooksScope hooks(rules.layers->again());
  rules.layers->begin_pass();
  const at::Tensor outputs = forward();
  rules.layers->end_pass();
  return outputs;
}

at::Tensor forward_pass(const std::function<at::Tensor(const at::Tensor&)>& forward,
                        const at::Tensor& inputs, const ForwardRules& rules) {
  return forward_pass([&] { return forward(inputs); }, inputs.device().type(), rules);
}

}  // namespace triaccel
