#pragma once

#include "triaccel/core/saved_census.h"

namespace torch::autograd {
struct Node;
}

namespace triaccel {

// What nodes of libtorch remember of their operator.

/// The windows of a node of max_pool2d_with_indices; none of any other.
PoolingWindows pooling_windows(const torch::autograd::Node& node);

/// Whether a node of gelu is of its approximation by tanh.
bool is_tanh_gelu(const torch::autograd::Node& node);

}  // namespace triaccel
