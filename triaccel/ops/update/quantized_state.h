#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "triaccel/core/state_view.h"
#include "triaccel/kernels/update/state_codec.h"

namespace triaccel {

// Coded states (TensorBundle::add_quantized_state) are handed out and taken back as FP32 values of
// their parameter's shape, as a state that is not coded: see Note [State in 8 bits]. The host codes
// and decodes, in memory that no budget counts.

StateView quantized_state(std::string name, const at::Tensor& codes, kernels::Moment moment,
                          const at::Tensor& parameter);

/// check_restorable(parameter, saved, name) comes first. Values that no code has, as a state of
/// FP32 holds them, are rounded with the noise of `seed`.
void restore_quantized_state(const at::Tensor& codes, kernels::Moment moment,
                             const at::Tensor& parameter, const StateMap& saved,
                             const std::string& name, std::uint64_t seed);

}  // namespace triaccel
