#pragma once

#include <cuda_runtime_api.h>

#include <vector>

namespace triaccel {

// What a CUDA graph consists of. In builds with CUDA only.

using GraphNodes = std::vector<cudaGraphNode_t>;

GraphNodes nodes_of(cudaGraph_t graph);
cudaGraphNodeType type_of(cudaGraphNode_t node);

/// A kernel of a graph and how it is launched.
struct LaunchNode {
  cudaGraphNode_t node = nullptr;
  cudaKernelNodeParams launch = {};
};

/// The first launch of a kernel of ours, known by its function; there must be one.
LaunchNode launch_of(cudaGraph_t graph, const void* kernel);

}  // namespace triaccel
