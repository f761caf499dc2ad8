#include "triaccel/ops/compression/window_codec.h"

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
          places.rows.window * places.columns.window, " taps, and codes reach to ", most_taps);
  require(places.count < most && places.rows.input * places.columns.input < most, who,
          "more than 2^31 windows, or pixels in a map");
  return places;
}

std::int64_t word_count(const kernels::WindowPlaces& places) {
  return window_bytes(places.count, places.rows.window * places.columns.window) / 4;
}

}  // namespace

at::Tensor encode_windows(const at::Tensor& indices, const WindowGeometry& geometry,
                          const CodeRoom& room) {
  constexpr std::string_view who = "encode_windows";
  require(indices.defined(), who, "indices is an undefined tensor");
  check_tensor(who, "indices", indices, indices.device(), at::kLong);
  const at::NoGradGuard no_gradient;
  const kernels::WindowPlaces places = places_of(who, indices, geometry);
  const at::Tensor taps = empty_codes(indices, word_count(places), at::kInt, room);
  const auto* from = indices.const_data_ptr<std::int64_t>();
  auto* to = static_cast<std::uint32_t*>(taps.mutable_data_ptr());
  dispatch(
      who, indices.device(), [&] { kernels::cpu::encode_windows(places, from, to); },
      [&](cudaStream_t stream) { kernels::cuda::encode_windows(places, from, to, stream); });
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
  dispatch(
      who, taps.device(), [&] { kernels::cpu::decode_windows(places, from, to); },
      [&](cudaStream_t stream) { kernels::cuda::decode_windows(places, from, to, stream); });
  return indices;
}

}  // namespace triaccel
