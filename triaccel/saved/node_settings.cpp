#include "triaccel/saved/node_settings.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/generated/Functions.h>

namespace triaccel {
namespace {

namespace generated = torch::autograd::generated;

std::array<std::int64_t, 2> pair_of(const std::vector<std::int64_t>& numbers) {
  return {numbers.front(), numbers.back()};
}

}  // namespace

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
