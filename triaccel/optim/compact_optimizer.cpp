#include "triaccel/optim/compact_optimizer.h"

#include <ATen/ATen.h>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/ops/tensors/tensor_state.h"

namespace triaccel {
namespace {

/// `memory` in the shape of all dimensions of `parameter` but the first.
at::Tensor per_input(const at::Tensor& memory, const at::Tensor& parameter, MatrixLayout layout) {
  std::vector<std::int64_t> strides = parameter.strides().slice(1).vec();
  if (layout.transposed)
    for (std::int64_t& stride : strides) stride /= parameter.size(0);
  return memory.as_strided(parameter.sizes().slice(1), strides, memory.storage_offset());
}

}  // namespace

MatrixLayout matrix_layout(const ParameterRef& parameter) {
  const at::Tensor& tensor = parameter.tensor;
  const std::int64_t count = tensor.numel();
  if (tensor.dim() < 2 || count == 0 || tensor.size(0) == 1 || tensor.size(0) == count)
    return {.rows = 1, .columns = count};
  const std::int64_t outputs = tensor.size(0);
  if (tensor.stride(0) == count / outputs) return {.rows = outputs, .columns = count / outputs};
  require(tensor.stride(0) == 1, "--optimizer", "parameter '", parameter.name,
          "' must have its first dimension outermost or innermost in memory, got strides ",
          tensor.strides(), "; make it contiguous");
  return {.rows = count / outputs, .columns = outputs, .transposed = true};
}

at::Tensor per_row(const at::Tensor& memory, const at::Tensor& parameter, MatrixLayout layout) {
  return layout.transposed ? per_input(memory, parameter, layout) : memory;
}

at::Tensor per_column(const at::Tensor& memory, const at::Tensor& parameter, MatrixLayout layout) {
  return layout.transposed ? memory : per_input(memory, parameter, layout);
}

std::int64_t CompactOptimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : states_) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

std::vector<StateView> CompactOptimizer::state() const {
  std::vector<StateView> views;
  for (const auto& [name, tensor] : states_) views.push_back(tensor_state(name, tensor));
  return views;
}

void CompactOptimizer::restore(const StateMap& saved) {
  for (const auto& [name, tensor] : states_) check_restorable(tensor, saved, name);
  for (auto& [name, tensor] : states_) restore_tensor(tensor, saved, name);
}

std::vector<at::Tensor> zeroed_parts(const std::vector<std::int64_t>& sizes,
                                     const at::Device& device) {
  constexpr std::int64_t unit = 32;  // 128 bytes
  std::int64_t total = 0;
  for (const std::int64_t size : sizes) total += round_up(size, unit);
  const at::Tensor buffer = at::zeros({total}, at::TensorOptions(at::kFloat).device(device));
  std::vector<at::Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(buffer.narrow(0, begin, size));
    begin += round_up(size, unit);
  }
  return parts;
}

}  // namespace triaccel
