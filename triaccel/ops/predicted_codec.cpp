#include "triaccel/ops/predicted_codec.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstring>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/ops/coded_tensor.h"
#include "triaccel/ops/tensor_check.h"

namespace triaccel {
namespace {

kernels::PredictedCoding predicted_coding(std::string_view who, at::IntArrayRef sizes,
                                          at::IntArrayRef strides, at::ScalarType type,
                                          const FrequencyCoding& coding) {
  const std::vector<BlockMap> maps = block_maps(sizes, strides);
  require(maps.size() == 1, who, "a tensor of sizes ", sizes, " is ", maps.size(),
          " maps, not one; ask codes_predicted first");
  require(coding.rounding == kernels::Rounding::Dither, who,
          "differences are coded with dither alone");
  return {.map = maps.front(),
          .type = float_type_of(who, "values", type),
          .block = coding.block,
          .bits = coefficient_bits(coding.block, coding.band_eighths),
          .key = coding.key};
}

}  // namespace

bool codes_predicted(const at::Tensor& values) {
  return codes_frequency(values) && values.is_cpu() && block_maps(values.sizes()).size() == 1;
}

at::Tensor encode_predicted(const at::Tensor& values, const FrequencyCoding& coding,
                            kernels::PredictionCounts& counts, const at::Tensor& not_finite) {
  constexpr std::string_view who = "encode_predicted";
  require(codes_predicted(values), who, "values must be one map on the CPU");
  const at::NoGradGuard no_gradient;
  const std::vector<std::uint8_t> codes = kernels::cpu::encode_predicted(
      predicted_coding(who, values.sizes(), values.strides(), values.scalar_type(), coding),
      values.const_data_ptr(), counts, counter_of(who, not_finite, values.device()));
  at::Tensor held = empty_codes(values, static_cast<std::int64_t>(codes.size()));
  if (!codes.empty()) std::memcpy(held.mutable_data_ptr(), codes.data(), codes.size());
  return held;
}

at::Tensor decode_predicted(const at::Tensor& codes, at::IntArrayRef sizes, at::IntArrayRef strides,
                            at::ScalarType type, const FrequencyCoding& coding) {
  constexpr std::string_view who = "decode_predicted";
  require(codes.defined() && codes.is_cpu(), who, "codes must lie on the CPU");
  const at::NoGradGuard no_gradient;
  at::Tensor values = empty_values(who, codes, codes.numel(), sizes, strides, type);
  kernels::cpu::decode_predicted(predicted_coding(who, sizes, strides, type, coding),
                                 codes.const_data_ptr<std::uint8_t>(), values.mutable_data_ptr());
  return values;
}

}  // namespace triaccel
