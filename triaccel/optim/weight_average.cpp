#include "triaccel/optim/weight_average.h"

#include <ATen/ATen.h>

#include "triaccel/base/error.h"
#include "triaccel/ops/update/multi_tensor.h"

namespace triaccel {

WeightAverage::WeightAverage(const WeightAverageOptions& options,
                             std::vector<ParameterRef> parameters)
    : step_{.decay = static_cast<float>(options.decay), .warm_up = options.warm_up},
      bundle_("WeightAverage", std::move(parameters)),
      averages_("average", bundle_.add_state(1)) {
  require(options.decay >= 0 && options.decay < 1, "WeightAverage", "decay must be in [0, 1), got ",
          options.decay);
  for (std::size_t i = 0; i < averages_.tensors().size(); ++i)
    averages_.tensors()[i].copy_(bundle_.parameters()[i].tensor.detach());
}

void WeightAverage::update(const at::Tensor& step_control) {
  average_weights(bundle_, step_control, step_);
}

void WeightAverage::swap() { swap_weights(bundle_); }

std::vector<StateView> WeightAverage::state() const {
  std::vector<StateView> states;
  averages_.append_to(states, bundle_.parameters());
  return states;
}

void WeightAverage::restore(const StateMap& saved) {
  averages_.check(saved, bundle_.parameters());
  averages_.restore(saved, bundle_.parameters());
}

ScopedAverage::~ScopedAverage() {
  try {
    average_.swap();
  } catch (...) {
    // Only a launch on a failed device throws here, and that error is sticky: the next call reports
    // it.
  }
}

}  // namespace triaccel
