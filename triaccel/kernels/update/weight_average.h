#pragma once

#include <cstdint>
#include <span>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/update/step_control.h"

namespace triaccel::kernels {

struct WeightAverageStep {
  float decay = 0.999f;
  bool warm_up = true;  // use min(decay, (1 + t) / (10 + t)) with t = control->applied_steps
};

/// average <- average + (1 - decay) * (p - average).   p = parameter, average = state1.
/// Nothing changes when control->skip is set.
/// swap_weights exchanges p and average element by element.
namespace cpu {
void average_weights(std::span<const TensorEntry> tensors, const StepControl* control,
                     WeightAverageStep step);
void swap_weights(std::span<const TensorEntry> tensors);
}  // namespace cpu
namespace cuda {
void average_weights(std::span<const TensorEntry> tensors, const StepControl* control,
                     WeightAverageStep step, cudaStream_t stream);
void swap_weights(std::span<const TensorEntry> tensors, cudaStream_t stream);
}  // namespace cuda

/// The share of the present weights in the new average.
TRIACCEL_HOST_DEVICE inline float average_gain(WeightAverageStep step, std::int64_t applied_steps) {
  const double t = static_cast<double>(applied_steps);
  const double early = (1.0 + t) / (10.0 + t);
  const double decay = double{step.decay};
  return static_cast<float>(1.0 - (step.warm_up && early < decay ? early : decay));
}

TRIACCEL_HOST_DEVICE inline void average_element(float& average, float p, float gain) {
  average += gain * (p - average);
}

}  // namespace triaccel::kernels
