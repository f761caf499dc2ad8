#pragma once

#include <span>

#include "triaccel/kernels/common/cuda_stream.h"
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

}  // namespace triaccel::kernels
