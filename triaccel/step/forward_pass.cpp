#include "triaccel/step/forward_pass.h"

#include "triaccel/step/autocast_scope.h"

namespace triaccel {

at::Tensor forward_pass(const std::function<at::Tensor(const at::Tensor&)>& forward,
                        const at::Tensor& inputs, const ForwardRules& rules) {
  const AutocastScope autocast(rules.autocast, inputs.device().type(), rules.autocast_type);
  if (rules.layers == nullptr) return forward(inputs);
  const OperatorScope scope(*rules.layers);
  rules.layers->begin_pass();
  const at::Tensor outputs = forward(inputs);
  rules.layers->end_pass();
  return outputs;
}

}  // namespace triaccel
