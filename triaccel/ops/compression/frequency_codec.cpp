#include "triaccel/ops/compression/frequency_codec.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/core/frequency_bands.h"
#include "triaccel/kernels/compression/frequency/frequency_codec.h"
#include "triaccel/ops/compression/encoded_tensor.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

/// One map of a tensor, and where its encoded begin.
struct EncodedMap {
  kernels::FrequencyCoding coding;
  std::int64_t encoded;
};

struct EncodedMaps {
  std::vector<EncodedMap> maps;
  std::int64_t bytes;
};

EncodedMaps encoded_maps(std::string_view who, at::IntArrayRef sizes, at::IntArrayRef strides,
                         at::ScalarType type, const FrequencyCoding& params) {
  const std::vector<BlockMap> maps = block_maps(sizes, strides);
  require(!maps.empty(), who, "a tensor of sizes ", sizes,
          " has no maps to transform; check can_encode_frequency() first");
  EncodedMaps coded = {};
  for (const BlockMap& map : maps) {
    kernels::FrequencyCoding coding = {.map = map,
                                       .type = float_type_of(who, "values", type),
                                       .block = params.block,
                                       .bits = coefficient_bits(params.block, params.band_eighths),
                                       .rounding = params.rounding,
                                       .key = params.key};
    coding.key.seed += coded.maps.size();  // other offsets than the map before
    const std::int64_t encoded = coded.bytes;
    coded.bytes += frequency_layout(map, coding.block, coding.bits).bytes();
    coded.maps.push_back({coding, encoded});
  }
  return coded;
}

bool strides_fit(const at::Tensor& values) {
  const std::vector<BlockMap> maps = block_maps(values.sizes(), values.strides());
  return std::ranges::all_of(maps, [](const BlockMap& map) {
    return map.row_stride < kernels::kMaxBlockStride &&
           map.column_stride < kernels::kMaxBlockStride;
  });
}

}  // namespace

bool can_encode_frequency(const at::Tensor& values) {
  return values.defined() && values.layout() == at::kStrided &&
         is_float_type(values.scalar_type()) && !block_maps(values.sizes()).empty();
}

at::Tensor encode_frequency(const at::Tensor& values, const FrequencyCoding& coding,
                            const at::Tensor& not_finite, const EncodeBuffer& buffer) {
  constexpr std::string_view who = "encode_frequency";
  require(values.defined() && values.layout() == at::kStrided, who,
          "values must be a strided tensor");
  const at::NoGradGuard no_gradient;
  const at::Tensor held = strides_fit(values) ? values : values.contiguous();
  const EncodedMaps coded =
      encoded_maps(who, held.sizes(), held.strides(), held.scalar_type(), coding);
  const at::Tensor encoded = allocate_encoded(held, coded.bytes, at::kByte, buffer);
  const void* from = held.const_data_ptr();
  auto* to = encoded.mutable_data_ptr<std::uint8_t>();
  std::int32_t* counter = counter_of(who, not_finite, held.device());
  for (const EncodedMap& map : coded.maps)
    dispatch<kernels::cpu::encode_frequency, kernels::cuda::encode_frequency>(
        who, held.device(), map.coding, from, to + map.encoded, counter);
  return encoded;
}

at::Tensor decode_frequency(const at::Tensor& encoded, at::IntArrayRef sizes,
                            at::IntArrayRef strides, at::ScalarType type, FrequencyCoding coding,
                            const CodecMap& map) {
  constexpr std::string_view who = "decode_frequency";
  const at::NoGradGuard no_gradient;
  const EncodedMaps coded = encoded_maps(who, sizes, strides, type, coding);
  const at::Tensor values = allocate_decoded(who, encoded, coded.bytes, sizes, strides, type);
  require(strides_fit(values), who, "strides ", strides, " are too large; ask for smaller ones");
  const auto* from = encoded.const_data_ptr<std::uint8_t>();
  void* to = values.mutable_data_ptr();
  require(!map.is_of_rows(), who, "maps of rows are for decode_groups");
  const kernels::CodecMap made = kernel_map(who, map, sizes, encoded.device());
  require(!made.changes() || channel_order(sizes, strides), who, "a map takes [N, C, H, W], dense ",
          "in that order or with channels last, got sizes ", sizes, " and strides ", strides);
  for (const EncodedMap& one : coded.maps)
    dispatch<kernels::cpu::decode_frequency, kernels::cuda::decode_frequency>(
        who, encoded.device(), one.coding, from + one.encoded, to, made);
  return values;
}

}  // namespace triaccel
