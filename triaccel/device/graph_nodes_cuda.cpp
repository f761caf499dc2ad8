#include <c10/cuda/CUDAException.h>

#include <optional>

#include "triaccel/base/error.h"
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
  std::optional<LaunchNode> found;
  for (cudaGraphNode_t node : nodes_of(graph)) {
    if (type_of(node) != cudaGraphNodeTypeKernel) continue;
    cudaKernelNodeParams launch = {};
    if (cudaGraphKernelNodeGetParams(node, &launch) != cudaSuccess) {
      (void)cudaGetLastError();  // a library's, which the runtime does not know
      continue;
    }
    if (launch.func != kernel) continue;
    ensure(!found, "a kernel whose arguments change was captured twice");
    found = {.node = node, .launch = launch};
  }
  ensure(found.has_value(), "a kernel whose arguments change was not captured");
  return *found;
}

}  // namespace triaccel
