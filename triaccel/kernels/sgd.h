#pragma once

#include <span>

#include "triaccel/kernels/cuda_stream.h"
#include "triaccel/kernels/step_control.h"
#include "triaccel/kernels/tensor_list.h"

namespace triaccel::kernels {

struct SgdStep {
  float momentum = 0.9f;
  float weight_decay = 0;
  bool nesterov = false;
};

/// For every tensor, with m = control->gradient_multiplier and lr = learning_rates[layer]:
///   d <- m * g + weight_decay * p;   v <- momentum * v + d;   p <- p - lr * v
/// (nesterov: p <- p - lr * (d + momentum * v)). p = parameter, g = gradient (F32), v = state1.
/// Nothing changes when control->skip is set.
namespace cpu {
void sgd_update(std::span<const TensorEntry> tensors, const float* learning_rates,
                const StepControl* control, SgdStep step);
}
namespace cuda {
void sgd_update(std::span<const TensorEntry> tensors, const float* learning_rates,
                const StepControl* control, SgdStep step, cudaStream_t stream);
}

}  // namespace triaccel::kernels
