#include "triaccel/ops/max_pool.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "triaccel/base/error.h"
#include "triaccel/kernels/max_pool.h"
#include "triaccel/ops/dispatch.h"
#include "triaccel/ops/tensor_check.h"

namespace triaccel {
namespace {

constexpr std::int64_t kMostPooledPixels = std::int64_t{1} << 30;
constexpr std::int64_t kMostTaps = 255;

bool is_float(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

bool is_channels_last(const at::Tensor& map) {
  return map.dim() == 4 && map.layout() == at::kStrided &&
         map.is_contiguous(at::MemoryFormat::ChannelsLast);
}

bool fits(const PoolGeometry& geometry) {
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t window = geometry.window[d], stride = geometry.stride[d];
    if (window < 1 || window > kMostTaps || stride < 1 || stride >= kMostPooledPixels ||
        geometry.padding[d] < 0 || geometry.padding[d] > window / 2)
      return false;
  }
  return geometry.window[0] * geometry.window[1] <= kMostTaps;
}

/// Call it where fits() holds.
kernels::PoolShape shape_of(at::IntArrayRef sizes, at::ScalarType type,
                            const PoolGeometry& geometry) {
  const auto axis = [&](std::size_t d) {
    return kernels::fitted_windows(sizes[d + 2], geometry.window[d], geometry.stride[d],
                                   geometry.padding[d]);
  };
  return {.images = sizes[0],
          .channels = sizes[1],
          .rows = axis(0),
          .columns = axis(1),
          .type = float_type_of("max_pool", "map", type)};
}

bool fits(const kernels::PoolShape& shape) {
  const std::int64_t inputs = shape.rows.input * shape.columns.input;
  const std::int64_t outputs = shape.rows.output * shape.columns.output;
  return inputs > 0 && outputs > 0 && shape.images < kMostPooledPixels / std::max(inputs, outputs);
}

}  // namespace

bool pools_maxima(const at::Tensor& map, const PoolGeometry& geometry) {
  return map.defined() && is_float(map.scalar_type()) && is_channels_last(map) && fits(geometry) &&
         fits(shape_of(map.sizes(), map.scalar_type(), geometry));
}

Maxima max_pool(const at::Tensor& map, const PoolGeometry& geometry) {
  constexpr std::string_view who = "max_pool";
  require(pools_maxima(map, geometry), who,
          "no kernel for this map, window, stride and padding; ask pools_maxima first");
  const kernels::PoolShape shape = shape_of(map.sizes(), map.scalar_type(), geometry);
  const at::NoGradGuard no_gradient;
  Maxima maxima = {
      .values = at::empty({shape.images, shape.channels, shape.rows.output, shape.columns.output},
                          map.options(), at::MemoryFormat::ChannelsLast),
      .taps = {}};
  maxima.taps = at::empty(maxima.values.sizes(), map.options().dtype(at::kByte),
                          at::MemoryFormat::ChannelsLast);
  const void* from = map.const_data_ptr();
  void* values = maxima.values.mutable_data_ptr();
  auto* taps = maxima.taps.mutable_data_ptr<std::uint8_t>();
  dispatch(
      who, map.device(), [&] { kernels::cpu::max_pool(shape, from, values, taps); },
      [&](cudaStream_t stream) { kernels::cuda::max_pool(shape, from, values, taps, stream); });
  return maxima;
}

at::Tensor max_pool_gradient(const at::Tensor& output_gradient, const at::Tensor& taps,
                             at::IntArrayRef map_sizes, const PoolGeometry& geometry) {
  constexpr std::string_view who = "max_pool_gradient";
  require(output_gradient.defined() && is_float(output_gradient.scalar_type()) &&
              is_channels_last(output_gradient),
          who,
          "output_gradient must be dense, channels-last and float32, bfloat16 or float16; call "
          "contiguous(ChannelsLast) on it");
  check_tensor(who, "taps", taps, output_gradient.device(), at::kByte);
  require(map_sizes.size() == 4 && fits(geometry), who,
          "no kernel for this map, window and padding; ask pools_maxima first");
  const kernels::PoolShape shape = shape_of(map_sizes, output_gradient.scalar_type(), geometry);
  require(fits(shape), who, "no window fits a map of sizes ", map_sizes);
  const std::array<std::int64_t, 4> wanted = {shape.images, shape.channels, shape.rows.output,
                                              shape.columns.output};
  require(output_gradient.sizes() == at::IntArrayRef(wanted), who,
          "output_gradient must have shape ", at::IntArrayRef(wanted), ", got ",
          output_gradient.sizes());
  require(taps.sizes() == output_gradient.sizes() && is_channels_last(taps), who,
          "taps must be those of max_pool: channels-last with shape ", at::IntArrayRef(wanted),
          ", got ", taps.sizes());
  const at::NoGradGuard no_gradient;
  at::Tensor gradient =
      at::empty(map_sizes, output_gradient.options(), at::MemoryFormat::ChannelsLast);
  const void* from = output_gradient.const_data_ptr();
  const auto* found = taps.const_data_ptr<std::uint8_t>();
  void* to = gradient.mutable_data_ptr();
  dispatch(
      who, gradient.device(), [&] { kernels::cpu::max_pool_gradient(shape, from, found, to); },
      [&](cudaStream_t stream) {
        kernels::cuda::max_pool_gradient(shape, from, found, to, stream);
      });
  return gradient;
}

}  // namespace triaccel
