#pragma once

#include <span>

#include "triaccel/kernels/cuda_stream.h"
#include "triaccel/kernels/layer_scale.h"
#include "triaccel/kernels/step_control.h"
#include "triaccel/kernels/tensor_list.h"

namespace triaccel::kernels {

struct SgdStep {
  float momentum = 0.9f;
  float weight_decay = 0;
  bool nesterov = false;
};

/// For every tensor, with m = control->gradient_multiplier and lr = learning_rates[layer], where m
/// is divided by scales[layer].scale for gradients stored as F16 (`scales` may be null: all 1):
///   d <- m * g + weight_decay * p;   v <- momentum * v + d;   p <- p - lr * v
/// (nesterov: p <- p - lr * (d + momentum * v)). p = parameter, g = gradient, v = state1.
/// Nothing changes when control->skip is set. Moves 16 bytes and a gradient per element.
namespace cpu {
void sgd_update(std::span<const TensorEntry> tensors, const float* learning_rates,
                const StepControl* control, const LayerScale* scales, SgdStep step);
}
namespace cuda {
void sgd_update(std::span<const TensorEntry> tensors, const float* learning_rates,
                const StepControl* control, const LayerScale* scales, SgdStep step,
                cudaStream_t stream);
}

}  // namespace triaccel::kernels
