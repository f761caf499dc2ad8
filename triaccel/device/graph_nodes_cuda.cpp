#include <c10/cuda/CUDAException.h>

#include <stdexcept>

#include "triaccel/device/graph_nodes.h"

namespace triaccel {

GraphNodes nodes_of(cudaGraph_t graph) {
  std::size_t count = 0;
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  GraphNodes nodes(count);
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  return nodes;
}

cudaGraphNodeType type_of(cudaGraphNode_t node) {
  cudaGraphNodeType type = {};
  C10_CUDA_CHECK(cudaGraphNodeGetType(node, &type));
  return type;
}

LaunchNode launch_of(cudaGraph_t graph, const void* kernel) {
  for (cudaGraphNode_t node : nodes_of(graph)) {
    if (type_of(node) != cudaGraphNodeTypeKernel) continue;
    cudaKernelNodeParams launch = {};
    if (cudaGraphKernelNodeGetParams(node, &launch) != cudaSuccess) {
      (void)cudaGetLastError();  // a library's, which the runtime does not know
      continue;
    }
    if (launch.func == kernel) return {.node = node, .launch = launch};
  }
  throw std::logic_error("a kernel whose arguments change was not captured");
}

}  // namespace triaccel
