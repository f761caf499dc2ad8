#include "triaccel/optim/adamw.h"

#include <ATen/ATen.h>

#include "triaccel/base/error.h"
#include "triaccel/ops/update/multi_tensor.h"

namespace triaccel {

AdamW::AdamW(const OptimizerOptions& options, std::vector<ParameterRef> parameters)
    : step_{.beta1 = options.beta1,
            .beta2 = options.beta2,
            .epsilon = static_cast<float>(options.epsilon),
            .weight_decay = static_cast<float>(options.weight_decay)},
      format_(options.state),
      noise_seed_(state_noise_seed(options)),
      bundle_("--optimizer", std::move(parameters)),
      first_("first_moment", bundle_, kernels::Moment::First, options),
      second_("second_moment", bundle_, kernels::Moment::Second, options) {
  for (const double beta : {options.beta1, options.beta2})
    require(beta >= 0 && beta < 1, "--optimizer", "betas must be in [0, 1), got ", beta);
  require(options.epsilon > 0, "--optimizer", "epsilon must be positive, got ", options.epsilon);
  require(options.weight_decay >= 0, "--optimizer", "weight_decay must not be negative, got ",
          options.weight_decay);
}

void AdamW::update(const UpdateInputs& inputs) {
  bundle_.bind_gradients();
  if (format_ == StateFormat::Fp32)
    update_tensors<kernels::cpu::adamw_update, kernels::cuda::adamw_update>("adamw_update", bundle_,
                                                                            inputs, step_);
  else
    update_tensors<kernels::cpu::quantized_adamw_update, kernels::cuda::quantized_adamw_update>(
        "quantized_adamw_update", bundle_, inputs, step_, state_noise(bundle_, noise_seed_));
}

std::vector<StateView> AdamW::state() const {
  std::vector<StateView> states;
  first_.append_to(states, bundle_.parameters());
  second_.append_to(states, bundle_.parameters());
  return states;
}

void AdamW::restore(const StateMap& saved) {
  first_.check(saved, bundle_.parameters());
  second_.check(saved, bundle_.parameters());
  first_.restore(saved, bundle_.parameters());
  second_.restore(saved, bundle_.parameters());
}

}  // namespace triaccel
