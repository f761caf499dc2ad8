#include "triaccel/ops/compression/predicted_codec.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstring>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/kernels/compression/frequency/frequency_codec.h"
#include "triaccel/kernels/compression/frequency/predicted_codec.h"
#include "triaccel/ops/compression/encoded_tensor.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

constexpr std::int64_t kCounts = sizeof(PredictionCounts) / sizeof(std::int64_t);

kernels::PredictedCoding predicted_coding(std::string_view who, at::IntArrayRef sizes,
                                          at::IntArrayRef strides, at::ScalarType type,
                                          const FrequencyCoding& coding, int saved) {
  const std::vector<BlockMap> maps = block_maps(sizes, strides);
  require(maps.size() == 1, who, "a tensor of sizes ", sizes, " is ", maps.size(),
          " maps, not one; check can_encode_predicted() first");
  require(coding.rounding == kernels::Rounding::Dither, who,
          "differences are encoded with dither only");
  require(maps.front().row_stride < kernels::kMaxBlockStride &&
              maps.front().column_stride < kernels::kMaxBlockStride,
          who, "strides ", strides, " are too large; ask for smaller ones");
  return {.map = maps.front(),
          .type = float_type_of(who, "values", type),
          .block = coding.block,
          .bits = coefficient_bits(coding.block, coding.band_eighths),
          .saved = saved,
          .key = coding.key};
}

std::int64_t bytes_of(const kernels::PredictedCoding& coding) {
  return predicted_layout(coding.map, coding.block, coding.bits, coding.saved).bytes();
}

}  // namespace

bool can_encode_predicted(const at::Tensor& values) {
  return can_encode_frequency(values) && block_maps(values.sizes()).size() == 1;
}

at::Tensor encode_predicted(const at::Tensor& values, const FrequencyCoding& coding, int saved,
                            const at::Tensor& counts, const at::Tensor& not_finite,
                            const EncodeBuffer& buffer) {
  constexpr std::string_view who = "encode_predicted";
  require(can_encode_predicted(values), who,
          "values must be one map; check can_encode_predicted() first");
  const at::NoGradGuard no_gradient;
  const kernels::PredictedCoding params =
      predicted_coding(who, values.sizes(), values.strides(), values.scalar_type(), coding, saved);
  PredictionCounts* counted = nullptr;
  if (counts.defined()) {
    check_contiguous(who, "counts", counts, values.device(), at::kLong, {kCounts});
    counted = static_cast<PredictionCounts*>(counts.mutable_data_ptr());
  }
  std::int32_t* lost = counter_of(who, not_finite, values.device());
  const at::Tensor encoded = allocate_encoded(values, bytes_of(params), at::kByte, buffer);
  auto* to = encoded.mutable_data_ptr<std::uint8_t>();
  const void* from = values.const_data_ptr();
  dispatch<kernels::cpu::encode_predicted, kernels::cuda::encode_predicted>(
      who, values.device(), params, from, to, counted, lost);
  return encoded;
}

at::Tensor decode_predicted(const at::Tensor& encoded, at::IntArrayRef sizes,
                            at::IntArrayRef strides, at::ScalarType type,
                            const FrequencyCoding& coding, int saved) {
  constexpr std::string_view who = "decode_predicted";
  const at::NoGradGuard no_gradient;
  const kernels::PredictedCoding params =
      predicted_coding(who, sizes, strides, type, coding, saved);
  const at::Tensor values = allocate_decoded(who, encoded, bytes_of(params), sizes, strides, type);
  const auto* from = encoded.const_data_ptr<std::uint8_t>();
  void* to = values.mutable_data_ptr();
  dispatch<kernels::cpu::decode_predicted, kernels::cuda::decode_predicted>(who, encoded.device(),
                                                                            params, from, to);
  return values;
}

at::Tensor prediction_counts(const at::Device& device) {
  return at::zeros({kCounts}, at::TensorOptions(at::kLong).device(device));
}

PredictionCounts counted_predictions(const at::Tensor& counts) {
  const at::Tensor host = counts.cpu();
  PredictionCounts counted;
  std::memcpy(&counted, host.const_data_ptr(), sizeof counted);
  return counted;
}

}  // namespace triaccel
