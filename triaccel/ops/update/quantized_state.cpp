#include "triaccel/ops/update/quantized_state.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

using Values = std::vector<float>;

/// The same values from one memory order in another.
Values reordered(const float* values, const at::Tensor& like, at::IntArrayRef from,
                 at::IntArrayRef to) {
  const c10::NoGradGuard no_gradient;
  Values others(static_cast<std::size_t>(like.numel()));
  const auto viewed = [&](float* data, at::IntArrayRef strides) {
    return at::from_blob(data, like.sizes(), strides, at::TensorOptions(at::kFloat));
  };
  viewed(others.data(), to).copy_(viewed(const_cast<float*>(values), from));
  return others;
}

std::vector<std::int64_t> row_major(const at::Tensor& tensor) {
  std::vector<std::int64_t> strides(static_cast<std::size_t>(tensor.dim()), 1);
  for (std::size_t i = strides.size(); i-- > 1;)
    strides[i - 1] = strides[i] * tensor.size(static_cast<std::int64_t>(i));
  return strides;
}

}  // namespace

StateView quantized_state(std::string name, const at::Tensor& encoded, kernels::Moment moment,
                          const at::Tensor& parameter) {
  const at::Tensor host = encoded.cpu();
  auto values = std::make_shared<Values>(static_cast<std::size_t>(parameter.numel()));
  kernels::cpu::decode_state(host.const_data_ptr<std::uint8_t>(), parameter.numel(), moment,
                             values->data());
  if (!parameter.is_contiguous())
    *values = reordered(values->data(), parameter, parameter.strides(), row_major(parameter));
  const std::span<const std::byte> bytes = std::as_bytes(std::span(*values));
  return {std::move(name), ElementType::F32, parameter.sizes().vec(), bytes, std::move(values)};
}

void restore_quantized_state(const at::Tensor& encoded, kernels::Moment moment,
                             const at::Tensor& parameter, const StateMap& saved,
                             const std::string& name, std::uint64_t seed) {
  const StateView& view = saved.at(name);
  ensure(view.bytes.size() == parameter.nbytes(), "a state is checked before it is restored");
  Values values(static_cast<std::size_t>(parameter.numel()));
  if (!values.empty()) std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  if (!parameter.is_contiguous())
    values = reordered(values.data(), parameter, row_major(parameter), parameter.strides());
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(encoded.numel()));
  kernels::cpu::encode_state(values.data(), parameter.numel(), moment, seed, bytes.data());
  encoded.copy_(at::from_blob(bytes.data(), {encoded.numel()}, at::TensorOptions(at::kByte)));
}

}  // namespace triaccel
