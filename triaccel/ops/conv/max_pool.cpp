#include "triaccel/ops/conv/max_pool.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "triaccel/base/error.h"
#include "triaccel/kernels/conv/max_pool.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

constexpr std::int64_t kMaxPooledPixels = std::int64_t{1} << 30;
constexpr std::int64_t kMaxTaps = 255;

bool pool_fits(const PoolGeometry& geometry) {
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t window = geometry.window[d], stride = geometry.stride[d];
    if (window < 1 || window > kMaxTaps || stride < 1 || stride >= kMaxPooledPixels ||
        geometry.padding[d] < 0 || geometry.padding[d] > window / 2)
      return false;
  }
  return geometry.window[0] * geometry.window[1] <= kMaxTaps;
}

/// Call it where pool_fits() holds.
kernels::PoolShape pool_shape(at::IntArrayRef sizes, at::ScalarType type,
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

bool pool_fits(const kernels::PoolShape& shape) {
  const std::int64_t inputs = shape.rows.input * shape.columns.input;
  const std::int64_t outputs = shape.rows.output * shape.columns.output;
  return inputs > 0 && outputs > 0 && shape.images < kMaxPooledPixels / std::max(inputs, outputs);
}

}  // namespace

bool pools_maxima(const at::Tensor& map, const PoolGeometry& geometry) {
  return map.defined() && map.dim() == 4 && is_float_type(map.scalar_type()) &&
         map.layout() == at::kStrided && map.is_contiguous(at::MemoryFormat::ChannelsLast) &&
         pool_fits(geometry) && pool_fits(pool_shape(map.sizes(), map.scalar_type(), geometry));
}

Maxima max_pool(const at::Tensor& map, const PoolGeometry& geometry) {
  constexpr std::string_view who = "max_pool";
  require(pools_maxima(map, geometry), who,
          "no kernel for this map, window, stride and padding; check pools_maxima() first");
  const kernels::PoolShape shape = pool_shape(map.sizes(), map.scalar_type(), geometry);
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
  dispatch<kernels::cpu::max_pool, kernels::cuda::max_pool>(who, map.device(), shape, from, values,
                                                            taps);
  return maxima;
}

at::Tensor max_pool_gradient(const at::Tensor& output_gradient, const at::Tensor& taps,
                             at::IntArrayRef map_sizes, const PoolGeometry& geometry,
                             const at::Tensor& added_gradient) {
  constexpr std::string_view who = "max_pool_gradient";
  require(output_gradient.defined() && is_float_type(output_gradient.scalar_type()), who,
          "output_gradient must be float32, bfloat16 or float16");
  require(map_sizes.size() == 4 && pool_fits(geometry), who,
          "no kernel for this map, window and padding; check pools_maxima() first");
  const kernels::PoolShape shape = pool_shape(map_sizes, output_gradient.scalar_type(), geometry);
  require(pool_fits(shape), who, "no window fits a map of sizes ", map_sizes);
  const std::array<std::int64_t, 4> wanted = {shape.images, shape.channels, shape.rows.output,
                                              shape.columns.output};
  check_map(who, "output_gradient", output_gradient, output_gradient.device(),
            output_gradient.scalar_type(), wanted);
  if (added_gradient.defined())
    check_map(who, "added_gradient", added_gradient, output_gradient.device(),
              output_gradient.scalar_type(), wanted);
  check_map(who, "taps", taps, output_gradient.device(), at::kByte, wanted);
  const at::NoGradGuard no_gradient;
  at::Tensor gradient =
      at::empty(map_sizes, output_gradient.options(), at::MemoryFormat::ChannelsLast);
  const void* from = output_gradient.const_data_ptr();
  const void* added = added_gradient.defined() ? added_gradient.const_data_ptr() : nullptr;
  const auto* found = taps.const_data_ptr<std::uint8_t>();
  void* to = gradient.mutable_data_ptr();
  dispatch<kernels::cpu::max_pool_gradient, kernels::cuda::max_pool_gradient>(
      who, gradient.device(), shape, from, added, found, to);
  return gradient;
}

}  // namespace triaccel
