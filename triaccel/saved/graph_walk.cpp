#include "triaccel/saved/graph_walk.h"

#include <ATen/ATen.h>
#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <unordered_set>
#include <vector>

namespace triaccel {
namespace {

constexpr std::string_view kLeaf = "torch::autograd::AccumulateGrad";

namespace generated = torch::autograd::generated;

std::array<std::int64_t, 2> pair_of(const std::vector<std::int64_t>& numbers) {
  return {numbers.front(), numbers.back()};
}

}  // namespace

std::uint64_t node_under_construction() { return at::sequence_number::peek() - 1; }

std::unordered_map<std::uint64_t, torch::autograd::Node*> nodes_behind(const at::Tensor& result) {
  std::unordered_map<std::uint64_t, torch::autograd::Node*> found;
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> front = {result.grad_fn().get()};
  while (!front.empty()) {
    torch::autograd::Node* node = front.back();
    front.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    if (node->name() != kLeaf) found.emplace(node->sequence_nr(), node);
    for (const torch::autograd::Edge& edge : node->next_edges())
      front.push_back(edge.function.get());
  }
  return found;
}

std::string operation_name(const torch::autograd::Node& node) {
  std::string name = node.name();
  const std::size_t suffix = name.rfind("Backward");
  if (suffix != std::string::npos && suffix > 0) name.resize(suffix);
  return name;
}

std::string operations_behind(const torch::autograd::Node* node, int most) {
  std::string names;
  for (int i = 0; i < most && node != nullptr && node->name() != kLeaf; ++i) {
    names += (i == 0 ? "" : " < ") + operation_name(*node);
    node = node->num_outputs() == 0 ? nullptr : node->next_edge(0).function.get();
  }
  return names;
}

PoolingWindows pooling_windows(const torch::autograd::Node& node) {
  const auto* pool = dynamic_cast<const generated::MaxPool2DWithIndicesBackward0*>(&node);
  if (pool == nullptr) return {};
  return {.size = pair_of(pool->kernel_size),
          .stride = pair_of(pool->stride.empty() ? pool->kernel_size : pool->stride),
          .padding = pair_of(pool->padding),
          .dilation = pair_of(pool->dilation)};
}

bool is_tanh_gelu(const torch::autograd::Node& node) {
  const auto* gelu = dynamic_cast<const generated::GeluBackward0*>(&node);
  return gelu != nullptr && gelu->approximate == "tanh";
}

}  // namespace triaccel
