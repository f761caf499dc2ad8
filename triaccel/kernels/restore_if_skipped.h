#pragma once

#include <span>

#include "triaccel/kernels/cuda_stream.h"
#include "triaccel/kernels/step_control.h"
#include "triaccel/kernels/tensor_list.h"

namespace triaccel::kernels {

/// live <- saved, bit for bit, when control->skip is set; else nothing is touched. Puts back what
/// the forward pass of a skipped step changed (running statistics) without asking the host.
/// live = parameter, saved = state1, count in 32-bit words whatever they hold. Moves 8 bytes a word
/// of a skipped step and none otherwise.
namespace cpu {
void restore_if_skipped(std::span<const TensorEntry> tensors, const StepControl* control);
}
namespace cuda {
void restore_if_skipped(std::span<const TensorEntry> tensors, const StepControl* control,
                        cudaStream_t stream);
}

}  // namespace triaccel::kernels
