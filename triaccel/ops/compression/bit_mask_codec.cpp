#include "triaccel/ops/compression/bit_mask_codec.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "triaccel/base/error.h"
#include "triaccel/core/saved_bytes.h"
#include "triaccel/ops/compression/encoded_tensor.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

kernels::MaskElement mask_element_of(std::string_view who, at::ScalarType type) {
  if (type == at::kBool) return kernels::MaskElement::Bool;
  switch (float_type_of(who, "a mask that is not bool", type)) {
    case kernels::FloatType::F32:
      return kernels::MaskElement::F32;
    case kernels::FloatType::Bf16:
      return kernels::MaskElement::Bf16;
    case kernels::FloatType::F16:
      return kernels::MaskElement::F16;
  }
  return kernels::MaskElement::F32;  // unreachable: a missing case is a build error
}

}  // namespace

at::Tensor encode_mask(const at::Tensor& values, kernels::MaskTest test, const CodeRoom& room) {
  constexpr std::string_view who = "encode_mask";
  check_dense(who, values);
  const at::NoGradGuard no_gradient;
  const kernels::MaskedArray array = {.type = mask_element_of(who, values.scalar_type()),
                                      .count = values.numel()};
  const at::Tensor words = empty_codes(values, mask_bytes(array.count) / 4, at::kInt, room);
  const void* from = values.const_data_ptr();
  auto* to = static_cast<std::uint32_t*>(words.mutable_data_ptr());
  dispatch(
      who, values.device(), [&] { kernels::cpu::encode_mask(array, from, test, to); },
      [&](cudaStream_t stream) { kernels::cuda::encode_mask(array, from, test, to, stream); });
  return words;
}

at::Tensor decode_mask(const at::Tensor& words, at::IntArrayRef sizes, at::IntArrayRef strides,
                       at::ScalarType type, kernels::MaskValue value) {
  constexpr std::string_view who = "decode_mask";
  require(words.defined(), who, "words is an undefined tensor");
  const at::NoGradGuard no_gradient;
  const kernels::MaskedArray array = {.type = mask_element_of(who, type),
                                      .count = c10::multiply_integers(sizes)};
  check_contiguous(who, "words", words, words.device(), at::kInt, {mask_bytes(array.count) / 4});
  const at::Tensor values = at::empty_strided(sizes, strides, words.options().dtype(type));
  check_dense(who, values);
  const auto* from = static_cast<const std::uint32_t*>(words.const_data_ptr());
  void* to = values.mutable_data_ptr();
  dispatch(
      who, words.device(), [&] { kernels::cpu::decode_mask(array, from, value, to); },
      [&](cudaStream_t stream) { kernels::cuda::decode_mask(array, from, value, to, stream); });
  return values;
}

}  // namespace triaccel
