#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "triaccel/core/state_view.h"
#include "triaccel/kernels/update/state_codec.h"

namespace triaccel {

// 8-bit states (TensorBundle::add_quantized_state) are saved and restored as FP32 values of their
// parameter's shape, as any other state: see Note [State in 8 bits]. The host encodes and decodes,
// in memory that no budget counts.

StateView quantized_state(std::string name, const at::Tensor& encoded, kernels::Moment moment,
                          const at::Tensor& parameter);

/// check_restorable(parameter, saved, name) comes first. Values that 8 bits cannot hold, as
/// those of an FP32 state, are rounded with the noise of `seed`.
void restore_quantized_state(const at::Tensor& encoded, kernels::Moment moment,
                             const at::Tensor& parameter, const StateMap& saved,
                             const std::string& name, std::uint64_t seed);

}  // namespace triaccel
