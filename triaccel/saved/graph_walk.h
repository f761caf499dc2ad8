#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <unordered_map>

#include "triaccel/core/saved_census.h"

namespace torch::autograd {
struct Node;
}

namespace triaccel {

/// The number that autograd gave the node being built: inside SavedTensorKeeper::keep the one that
/// saves. Nodes count up within a thread.
std::uint64_t node_under_construction();

/// Every node that backward from `result` comes past, by its number. Leaves have none.
std::unordered_map<std::uint64_t, torch::autograd::Node*> nodes_behind(const at::Tensor& result);

/// The name of a node's operation: "Relu" for ReluBackward0, "triaccel::LayerNode" as it is.
std::string operation_name(const torch::autograd::Node& node);

/// The operations that made what enters backward at `node`, nearest first, joined by " < ": the
/// first operand's at each.
std::string operations_behind(const torch::autograd::Node* node, int most);

// What nodes of libtorch remember of their operator.

/// The windows of a node of max_pool2d_with_indices; none of any other.
PoolingWindows pooling_windows(const torch::autograd::Node& node);

/// Whether a node of gelu is of its approximation by tanh.
bool is_tanh_gelu(const torch::autograd::Node& node);

}  // namespace triaccel
