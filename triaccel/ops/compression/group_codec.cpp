#include "triaccel/ops/compression/group_codec.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "triaccel/base/error.h"
#include "triaccel/ops/compression/encoded_tensor.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

void check_width(std::string_view who, int eighths) {
  require(eighths >= kMinGroupEighths && eighths <= kMaxGroupEighths, who,
          "eighths of a bit must be between ", kMinGroupEighths, " and ", kMaxGroupEighths,
          ", got ", eighths);
}

}  // namespace

at::Tensor encode_groups(const at::Tensor& values, kernels::GroupCoding coding,
                         const at::Tensor& not_finite, const EncodeBuffer& buffer) {
  constexpr std::string_view who = "encode_groups";
  check_dense(who, values);
  check_width(who, coding.eighths);
  const at::NoGradGuard no_gradient;
  coding.type = float_type_of(who, "values", values.scalar_type());
  coding.count = values.numel();
  const at::Tensor encoded =
      allocate_encoded(values, group_bytes(coding.count, coding.eighths), at::kByte, buffer);
  const void* from = values.const_data_ptr();
  void* to = encoded.mutable_data_ptr();
  std::int32_t* counter = counter_of(who, not_finite, values.device());
  dispatch<kernels::cpu::encode_groups, kernels::cuda::encode_groups>(who, values.device(), coding,
                                                                      from, to, counter);
  return encoded;
}

at::Tensor decode_groups(const at::Tensor& encoded, at::IntArrayRef sizes, at::IntArrayRef strides,
                         at::ScalarType type, kernels::GroupCoding coding, const CodecMap& map) {
  constexpr std::string_view who = "decode_groups";
  check_width(who, coding.eighths);
  const at::NoGradGuard no_gradient;
  coding.type = float_type_of(who, "values", type);
  coding.count = c10::multiply_integers(sizes);
  const at::Tensor values = allocate_decoded(
      who, encoded, group_bytes(coding.count, coding.eighths), sizes, strides, type);
  const void* from = encoded.const_data_ptr();
  void* to = values.mutable_data_ptr();
  const kernels::CodecMap made = kernel_map(who, map, sizes, encoded.device());
  const auto order = map.is_of_rows() ? row_order(sizes, strides) : channel_order(sizes, strides);
  require(!made.changes() || order, who, "a map takes [N, C, H, W], dense in that order or with ",
          "channels last, and one of rows contiguous ones, got sizes ", sizes, " and strides ",
          strides);
  const kernels::ChannelOrder channels = order.value_or(kernels::ChannelOrder{});
  dispatch<kernels::cpu::decode_groups, kernels::cuda::decode_groups>(who, encoded.device(), coding,
                                                                      from, to, made, channels);
  return values;
}

}  // namespace triaccel
