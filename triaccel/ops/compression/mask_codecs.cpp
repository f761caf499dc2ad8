#include "triaccel/ops/compression/mask_codecs.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "triaccel/base/error.h"
#include "triaccel/core/saved_bytes.h"
#include "triaccel/kernels/compression/masks/window_codec.h"
#include "triaccel/ops/compression/encoded_tensor.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

/// Throws UsageError where the kernels cannot take them.
kernels::WindowPlaces places_of(std::string_view who, const at::Tensor& indices,
                                const WindowGeometry& geometry) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  constexpr std::int64_t most_taps = 256;
  const bool planar = indices.is_contiguous();
  require(planar || indices.is_contiguous(at::MemoryFormat::ChannelsLast), who,
          "indices must be contiguous or channels-last; call contiguous() on them");
  require(indices.dim() >= 2, who, "indices must have rows and columns, got ", indices.sizes());
  const auto axis = [&](std::size_t d) {
    const std::int64_t window = geometry.window[d], stride = geometry.stride[d];
    require(geometry.map[d] > 0 && window > 0 && window <= most_taps && stride > 0 &&
                geometry.padding[d] >= 0 && geometry.dilation[d] > 0,
            who, "no windows of ", window, " taps, stride ", stride, ", padding ",
            geometry.padding[d], " and dilation ", geometry.dilation[d], " on ", geometry.map[d],
            " pixels");
    return kernels::WindowAxis{.input = geometry.map[d],
                               .output = indices.size(static_cast<std::int64_t>(d) - 2),
                               .window = window,
                               .stride = stride,
                               .padding = geometry.padding[d]};
  };
  const kernels::WindowPlaces places = {.count = indices.numel(),
                                        .inner = planar ? 1 : indices.size(1),
                                        .rows = axis(0),
                                        .columns = axis(1),
                                        .row_dilation = geometry.dilation[0],
                                        .column_dilation = geometry.dilation[1]};
  require(places.rows.window * places.columns.window <= most_taps, who, "windows have ",
          places.rows.window * places.columns.window, " taps, and encoded reach to ", most_taps);
  require(places.count < most && places.rows.input * places.columns.input < most, who,
          "more than 2^31 windows, or pixels in a map");
  return places;
}

std::int64_t word_count(const kernels::WindowPlaces& places) {
  return window_bytes(places.count, places.rows.window * places.columns.window) / 4;
}

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

at::Tensor encode_mask(const at::Tensor& values, kernels::MaskTest test,
                       const EncodeBuffer& buffer) {
  constexpr std::string_view who = "encode_mask";
  check_dense(who, values);
  const at::NoGradGuard no_gradient;
  const kernels::MaskedArray array = {.type = mask_element_of(who, values.scalar_type()),
                                      .count = values.numel()};
  const at::Tensor words = allocate_encoded(values, mask_bytes(array.count) / 4, at::kInt, buffer);
  const void* from = values.const_data_ptr();
  auto* to = static_cast<std::uint32_t*>(words.mutable_data_ptr());
  dispatch<kernels::cpu::encode_mask, kernels::cuda::encode_mask>(who, values.device(), array, from,
                                                                  test, to);
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
  dispatch<kernels::cpu::decode_mask, kernels::cuda::decode_mask>(who, words.device(), array, from,
                                                                  value, to);
  return values;
}

at::Tensor encode_windows(const at::Tensor& indices, const WindowGeometry& geometry,
                          const EncodeBuffer& buffer) {
  constexpr std::string_view who = "encode_windows";
  require(indices.defined(), who, "indices is an undefined tensor");
  check_tensor(who, "indices", indices, indices.device(), at::kLong);
  const at::NoGradGuard no_gradient;
  const kernels::WindowPlaces places = places_of(who, indices, geometry);
  const at::Tensor taps = allocate_encoded(indices, word_count(places), at::kInt, buffer);
  const auto* from = indices.const_data_ptr<std::int64_t>();
  auto* to = static_cast<std::uint32_t*>(taps.mutable_data_ptr());
  dispatch<kernels::cpu::encode_windows, kernels::cuda::encode_windows>(who, indices.device(),
                                                                        places, from, to);
  return taps;
}

at::Tensor decode_windows(const at::Tensor& taps, at::IntArrayRef sizes, at::IntArrayRef strides,
                          const WindowGeometry& geometry) {
  constexpr std::string_view who = "decode_windows";
  require(taps.defined(), who, "taps is an undefined tensor");
  const at::NoGradGuard no_gradient;
  const at::Tensor indices = at::empty_strided(sizes, strides, taps.options().dtype(at::kLong));
  const kernels::WindowPlaces places = places_of(who, indices, geometry);
  check_contiguous(who, "taps", taps, taps.device(), at::kInt, {word_count(places)});
  const auto* from = static_cast<const std::uint32_t*>(taps.const_data_ptr());
  auto* to = indices.mutable_data_ptr<std::int64_t>();
  dispatch<kernels::cpu::decode_windows, kernels::cuda::decode_windows>(who, taps.device(), places,
                                                                        from, to);
  return indices;
}

}  // namespace triaccel
