#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace triaccel {

/// Tensors of the shapes, memory orders and type of `like` (dense, all of one type and device), on
/// their device or another, uninitialised, one behind the other in a single allocation, each at a
/// multiple of 32 elements: allocators round every piece up, a GPU's to many megabytes.
std::vector<at::Tensor> in_flat_buffer(const std::vector<at::Tensor>& like,
                                       std::optional<c10::Device> device = {});

}  // namespace triaccel
