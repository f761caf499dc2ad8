#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

#include "triaccel/device/graph_nodes.h"
#include "triaccel/kernels/common/fill.h"

namespace triaccel {
namespace {

bool allocates_memory(const GraphNodes& nodes) {
  return std::ranges::any_of(nodes, [](cudaGraphNode_t node) {
    const cudaGraphNodeType type = type_of(node);
    return type == cudaGraphNodeTypeMemAlloc || type == cudaGraphNodeTypeMemFree;
  });
}

/// One node waits for the end of the other, and for nothing less.
bool is_full(const cudaGraphEdgeData& edge) {
  return edge.from_port == cudaGraphKernelNodePortDefault && edge.to_port == 0 &&
         edge.type == cudaGraphDependencyTypeDefault;
}

/// What cudaGraphNodeGetDependencies or cudaGraphNodeGetDependentNodes answers; nothing where an
/// edge is not full.
template <typename Query>
std::optional<GraphNodes> across_full_edges(Query query, cudaGraphNode_t node) {
  std::size_t count = 0;
  C10_CUDA_CHECK(query(node, nullptr, nullptr, &count));
  GraphNodes nodes(count);
  std::vector<cudaGraphEdgeData> edges(count);
  C10_CUDA_CHECK(query(node, nodes.data(), edges.data(), &count));
  if (!std::ranges::all_of(edges, is_full)) return std::nullopt;
  return nodes;
}

/// Nothing where there are several rows.
std::optional<kernels::Fill> fill_of(cudaGraphNode_t memset) {
  cudaMemsetParams row = {};
  C10_CUDA_CHECK(cudaGraphMemsetNodeGetParams(memset, &row));
  if (row.height != 1) return std::nullopt;
  return kernels::Fill{.to = row.dst,
                       .bytes = static_cast<std::int64_t>(row.width * row.elementSize),
                       .pattern = kernels::fill_pattern(row.value, row.elementSize)};
}

cudaGraphNode_t add_fill_node(cudaGraph_t graph, kernels::Fill fill) {
  const kernels::cuda::FillKernel kernel = kernels::cuda::fill_kernel(fill);
  void* arguments[] = {&fill};
  cudaKernelNodeParams launch = {};
  launch.func = const_cast<void*>(kernel.function);
  launch.gridDim = {kernel.blocks, 1, 1};
  launch.blockDim = {kernel.threads, 1, 1};
  launch.kernelParams = arguments;
  cudaGraphNode_t node = nullptr;
  C10_CUDA_CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &launch));
  return node;
}

}  // namespace

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

void replace_memset_nodes(cudaGraph_t graph) {
  const GraphNodes nodes = nodes_of(graph);
  if (allocates_memory(nodes)) return;
  for (cudaGraphNode_t memset : nodes) {
    if (type_of(memset) != cudaGraphNodeTypeMemset) continue;
    const std::optional<kernels::Fill> fill = fill_of(memset);
    const auto before = across_full_edges(cudaGraphNodeGetDependencies, memset);
    const auto after = across_full_edges(cudaGraphNodeGetDependentNodes, memset);
    if (!fill || !before || !after) continue;
    cudaGraphNode_t kernel = add_fill_node(graph, *fill);
    const auto connect = [&](const GraphNodes& from, const GraphNodes& to) {
      C10_CUDA_CHECK(cudaGraphAddDependencies(graph, from.data(), to.data(), nullptr, to.size()));
    };
    connect(*before, GraphNodes(before->size(), kernel));
    connect(GraphNodes(after->size(), kernel), *after);
    C10_CUDA_CHECK(cudaGraphDestroyNode(memset));
  }
}

}  // namespace triaccel
