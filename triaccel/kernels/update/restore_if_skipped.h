#pragma once

#include <span>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/update/step_control.h"

namespace triaccel::kernels {

/// live <- saved, bit for bit, when control->skip is set; else nothing is touched. Puts back what
/// the forward pass of a skipped step changed (running statistics) without asking the host.
/// live = parameter, saved = state1, count in 32-bit words whatever they hold. Moves 8 bytes per
/// word of a skipped step and none otherwise. restore does so whatever was decided; save_to_restore
/// makes the copies: saved <- live.
namespace cpu {
void save_to_restore(std::span<const TensorEntry> tensors);
void restore(std::span<const TensorEntry> tensors);
void restore_if_skipped(std::span<const TensorEntry> tensors, const StepControl* control);
}  // namespace cpu
namespace cuda {
void save_to_restore(std::span<const TensorEntry> tensors, cudaStream_t stream);
void restore(std::span<const TensorEntry> tensors, cudaStream_t stream);
void restore_if_skipped(std::span<const TensorEntry> tensors, const StepControl* control,
                        cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
