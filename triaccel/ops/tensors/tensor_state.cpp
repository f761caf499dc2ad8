#include "triaccel/ops/tensors/tensor_state.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

struct TypePair {
  at::ScalarType torch;
  ElementType ours;
};

constexpr TypePair kTypes[] = {
    {at::kBool, ElementType::Bool}, {at::kByte, ElementType::U8},
    {at::kChar, ElementType::I8},   {at::kShort, ElementType::I16},
    {at::kInt, ElementType::I32},   {at::kLong, ElementType::I64},
    {at::kHalf, ElementType::F16},  {at::kBFloat16, ElementType::BF16},
    {at::kFloat, ElementType::F32}, {at::kDouble, ElementType::F64},
};

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

ElementType element_type_of(at::ScalarType type) {
  for (const TypePair& pair : kTypes)
    if (pair.torch == type) return pair.ours;
  throw UsageError(
      text("[tensor_state] tensors of type ", c10::toString(type), " cannot be stored"));
}

at::ScalarType scalar_type_of(ElementType type) {
  for (const TypePair& pair : kTypes)
    if (pair.ours == type) return pair.torch;
  return at::kFloat;  // unreachable: every ElementType is in the table
}

StateView tensor_state(std::string name, const at::Tensor& tensor) {
  require(tensor.defined(), "tensor_state", "'", name, "' is an undefined tensor");
  auto host = std::make_shared<const at::Tensor>(tensor.detach().cpu().contiguous());
  StateView view;
  view.name = std::move(name);
  view.type = element_type_of(host->scalar_type());
  view.shape = host->sizes().vec();
  view.bytes = {static_cast<const std::byte*>(host->const_data_ptr()), host->nbytes()};
  view.owner = std::move(host);
  return view;
}

void check_restorable(const at::Tensor& into, const StateMap& saved, const std::string& name) {
  require(into.defined(), "restore_tensor", "'", name, "' is an undefined tensor");
  const auto found = saved.find(name);
  if (found == saved.end()) throw StorageError(text("the checkpoint has no state '", name, "'"));
  const StateView& view = found->second;
  const ElementType wanted = element_type_of(into.scalar_type());
  if (view.type != wanted || at::IntArrayRef(view.shape) != into.sizes() ||
      view.bytes.size() != into.nbytes())
    throw StorageError(text("the checkpoint's state '", name, "' is ", name_of(view.type), " ",
                            at::IntArrayRef(view.shape), " in ", view.bytes.size(),
                            " bytes, expected ", name_of(wanted), " ", into.sizes(),
                            "; was it saved by another model or optimizer?"));
}

void restore_tensor(at::Tensor& into, const StateMap& saved, const std::string& name) {
  check_restorable(into, saved, name);
  const StateView& view = saved.at(name);
  if (view.bytes.empty()) return;
  const c10::NoGradGuard no_gradient;
  const at::Tensor host = at::empty(into.sizes(), at::TensorOptions().dtype(into.scalar_type()));
  std::memcpy(host.mutable_data_ptr(), view.bytes.data(), view.bytes.size());
  into.copy_(host);
}

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
