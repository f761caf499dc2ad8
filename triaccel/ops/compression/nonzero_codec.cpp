#include "triaccel/ops/compression/nonzero_codec.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "triaccel/base/error.h"
#include "triaccel/ops/compression/encoded_tensor.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

void check_room(std::string_view who, int eighths) {
  require(eighths >= kMinNonZeroEighths && eighths <= kMaxNonZeroEighths, who,
          "the space for the encoded values must be between ", kMinNonZeroEighths, " and ",
          kMaxNonZeroEighths, " eighths of a bit per element, got ", eighths,
          "; below, a tensor without zeros would have no bit for each of its elements");
}

void check_mask(std::string_view who, const at::Tensor& mask, const at::Device& device,
                std::int64_t count) {
  check_contiguous(who, "mask", mask, device, at::kInt, {mask_bytes(count) / 4});
}

}  // namespace

EncodedNonZeros encode_nonzeros(const at::Tensor& values, kernels::NonZeroCoding coding,
                                const at::Tensor& mask, const at::Tensor& not_finite,
                                const EncodeBuffer& buffer) {
  constexpr std::string_view who = "encode_nonzeros";
  check_dense(who, values);
  check_room(who, coding.eighths);
  const at::NoGradGuard no_gradient;
  coding.type = float_type_of(who, "values", values.scalar_type());
  coding.count = values.numel();
  EncodedNonZeros encoded = {
      .mask = mask,
      .records =
          allocate_encoded(values, nonzero_bytes(coding.count, coding.eighths), at::kByte, buffer)};
  kernels::NonZeroMask bits = {};
  if (mask.defined()) {
    check_mask(who, mask, values.device(), coding.count);
    bits.given = static_cast<const std::uint32_t*>(mask.const_data_ptr());
  } else {
    encoded.mask = allocate_encoded(values, mask_bytes(coding.count) / 4, at::kInt, buffer);
    bits.written = static_cast<std::uint32_t*>(encoded.mask.mutable_data_ptr());
  }
  const void* from = values.const_data_ptr();
  void* to = encoded.records.mutable_data_ptr();
  std::int32_t* counter = counter_of(who, not_finite, values.device());
  dispatch<kernels::cpu::encode_nonzeros, kernels::cuda::encode_nonzeros>(
      who, values.device(), coding, from, bits, to, counter);
  return encoded;
}

at::Tensor decode_nonzeros(const EncodedNonZeros& encoded, at::IntArrayRef sizes,
                           at::IntArrayRef strides, at::ScalarType type,
                           kernels::NonZeroCoding coding) {
  constexpr std::string_view who = "decode_nonzeros";
  check_room(who, coding.eighths);
  const at::NoGradGuard no_gradient;
  coding.type = float_type_of(who, "values", type);
  coding.count = c10::multiply_integers(sizes);
  const at::Tensor values = allocate_decoded(
      who, encoded.records, nonzero_bytes(coding.count, coding.eighths), sizes, strides, type);
  check_mask(who, encoded.mask, values.device(), coding.count);
  const auto* mask = static_cast<const std::uint32_t*>(encoded.mask.const_data_ptr());
  const void* from = encoded.records.const_data_ptr();
  void* to = values.mutable_data_ptr();
  dispatch<kernels::cpu::decode_nonzeros, kernels::cuda::decode_nonzeros>(who, values.device(),
                                                                          coding, mask, from, to);
  return values;
}

}  // namespace triaccel
