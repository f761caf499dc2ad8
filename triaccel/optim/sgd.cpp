#include "triaccel/optim/sgd.h"

#include <ATen/ATen.h>

#include "triaccel/base/error.h"
#include "triaccel/ops/update/multi_tensor.h"

namespace triaccel {

Sgd::Sgd(const OptimizerOptions& options, std::vector<ParameterRef> parameters)
    : step_{.momentum = static_cast<float>(options.momentum),
            .weight_decay = static_cast<float>(options.weight_decay),
            .nesterov = options.nesterov},
      format_(options.state),
      noise_seed_(state_noise_seed(options)),
      bundle_("--optimizer", std::move(parameters)),
      momentum_("momentum", bundle_, kernels::Moment::First, options) {
  require(options.momentum >= 0 && options.momentum < 1, "--optimizer",
          "momentum must be in [0, 1), got ", options.momentum);
  require(options.weight_decay >= 0, "--optimizer", "weight_decay must not be negative, got ",
          options.weight_decay);
}

void Sgd::update(const UpdateInputs& inputs) {
  bundle_.bind_gradients();
  if (format_ == StateFormat::Fp32)
    update_tensors<kernels::cpu::sgd_update, kernels::cuda::sgd_update>("sgd_update", bundle_,
                                                                        inputs, step_);
  else
    update_tensors<kernels::cpu::quantized_sgd_update, kernels::cuda::quantized_sgd_update>(
        "quantized_sgd_update", bundle_, inputs, step_, state_noise(bundle_, noise_seed_));
}

std::vector<StateView> Sgd::state() const {
  std::vector<StateView> states;
  momentum_.append_to(states, bundle_.parameters());
  return states;
}

void Sgd::restore(const StateMap& saved) {
  momentum_.check(saved, bundle_.parameters());
  momentum_.restore(saved, bundle_.parameters());
}

}  // namespace triaccel
