#include "triaccel/ops/tensors/tensor_state.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cstring>

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

}  // namespace triaccel
