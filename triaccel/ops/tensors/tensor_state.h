#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "triaccel/core/state_view.h"

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

}  // namespace triaccel
