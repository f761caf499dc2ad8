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

/// Puts kernels that write the same bytes in place of a graph's memset nodes, which libraries leave
/// in a capture (counters, zeros between strided gradients): the device
/// idles much longer around a memset than between kernels. Memsets of several rows stay, as do all
/// in graphs that allocate memory: nothing may be removed from those. Before
/// the graph is instantiated, with its device current. In builds with CUDA only.
void replace_memset_nodes(cudaGraph_t graph);

}  // namespace triaccel
