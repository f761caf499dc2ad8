#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace triaccel {

/// Tensors of the shapes, memory orders, type and device of `like` (dense, all of one type and
/// device), uninitialised, one behind the other in a single allocation, each at a multiple of 32
/// elements: allocators round every piece up, a GPU's to many megabytes.
std::vector<at::Tensor> in_one_piece(const std::vector<at::Tensor>& like);

}  // namespace triaccel
