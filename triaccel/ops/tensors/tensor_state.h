#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "triaccel/core/state_view.h"
#include "triaccel/kernels/update/state_codec.h"

namespace triaccel {

ElementType element_type_of(at::ScalarType type);
at::ScalarType scalar_type_of(ElementType type);

/// A tensor as state, in logical row-major order whatever its strides. A contiguous CPU tensor is
/// not copied: its bytes are the tensor's own, which the view keeps alive.
StateView tensor_state(std::string name, const at::Tensor& tensor);

/// Throws StorageError, naming what was expected and found, unless `saved` has `name` with the
/// shape and type of `into`. Call it for all tensors before restore_tensor changes the first.
void check_restorable(const at::Tensor& into, const StateMap& saved, const std::string& name);

/// Copies the saved values into `into`, in place and keeping its strides.
void restore_tensor(at::Tensor& into, const StateMap& saved, const std::string& name);

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
