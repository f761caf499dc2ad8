#include "triaccel/ops/norm/channel_gate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <array>

#include "triaccel/base/error.h"
#include "triaccel/kernels/excitation/channel_gate.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

bool is_gated_map(const at::Tensor& map) {
  return map.dim() == 4 && is_float_type(map.scalar_type()) && map.layout() == at::kStrided &&
         map.is_contiguous(at::MemoryFormat::ChannelsLast) && map.size(2) * map.size(3) > 0;
}

kernels::ChannelMaps maps_of(std::string_view who, at::IntArrayRef sizes, at::ScalarType type) {
  return {.images = sizes[0],
          .pixels = sizes[2] * sizes[3],
          .channels = sizes[1],
          .type = float_type_of(who, "map", type)};
}

void check_gated_map(std::string_view who, std::string_view name, const at::Tensor& map) {
  require(map.defined() && is_gated_map(map), who, name,
          " must be a dense, channels-last map [N, C, H, W] of float32, bfloat16 or float16 with "
          "at least one pixel; check gates_channels() first");
}

/// Of the map's device and type, [N, C, 1, 1].
void check_of_channels(std::string_view who, std::string_view name, const at::Tensor& tensor,
                       const at::TensorOptions& options, at::IntArrayRef map_sizes) {
  check_contiguous(who, name, tensor, options.device(), c10::typeMetaToScalarType(options.dtype()),
                   {map_sizes[0], map_sizes[1], 1, 1});
}

at::Tensor sum_pixels(std::string_view who, const at::Tensor& map, const at::Tensor& factor,
                      float divisor) {
  const at::NoGradGuard no_gradient;
  at::Tensor result = at::empty({map.size(0), map.size(1), 1, 1}, map.options());
  const kernels::ChannelMaps maps = maps_of(who, map.sizes(), map.scalar_type());
  const kernels::PixelSum sum = {.map = map.const_data_ptr(),
                                 .factor = factor.defined() ? factor.const_data_ptr() : nullptr,
                                 .result = result.mutable_data_ptr(),
                                 .divisor = divisor};
  dispatch<kernels::cpu::pixel_sum, kernels::cuda::pixel_sum>(who, map.device(), maps, sum);
  return result;
}

}  // namespace

bool gates_channels(const at::Tensor& map, const at::Tensor& gates) {
  if (!map.defined() || !is_gated_map(map)) return false;
  const std::array<std::int64_t, 4> wanted = {map.size(0), map.size(1), 1, 1};
  return !gates.defined() ||
         (gates.sizes() == at::IntArrayRef(wanted) && gates.is_contiguous() &&
          gates.device() == map.device() && gates.scalar_type() == map.scalar_type());
}

at::Tensor pixel_mean(const at::Tensor& map) {
  constexpr std::string_view who = "pixel_mean";
  check_gated_map(who, "map", map);
  return sum_pixels(who, map, {}, static_cast<float>(map.size(2) * map.size(3)));
}

at::Tensor gate_channels(const at::Tensor& map, const at::Tensor& gates) {
  check_gated_map("gate_channels", "map", map);
  return gated_map_gradient(map, gates, {}, map.sizes());
}

at::Tensor gates_gradient(const at::Tensor& output_gradient, const at::Tensor& map) {
  constexpr std::string_view who = "gates_gradient";
  check_gated_map(who, "map", map);
  check_map(who, "output_gradient", output_gradient, map.device(), map.scalar_type(), map.sizes());
  return sum_pixels(who, output_gradient, map, 1);
}

at::Tensor gated_map_gradient(const at::Tensor& output_gradient, const at::Tensor& gates,
                              const at::Tensor& mean_gradient, at::IntArrayRef map_sizes) {
  constexpr std::string_view who = "gated_map_gradient";
  require(map_sizes.size() == 4, who, "map_sizes must be [N, C, H, W], got ", map_sizes);
  require(output_gradient.defined() == gates.defined(), who,
          "output_gradient and gates must be given together");
  require(output_gradient.defined() || mean_gradient.defined(), who,
          "output_gradient and gates, or mean_gradient, must be given");
  const at::TensorOptions options =
      output_gradient.defined() ? output_gradient.options() : mean_gradient.options();
  if (output_gradient.defined()) {
    check_gated_map(who, "output_gradient", output_gradient);
    check_map(who, "output_gradient", output_gradient, options.device(),
              output_gradient.scalar_type(), map_sizes);
    check_of_channels(who, "gates", gates, options, map_sizes);
  }
  if (mean_gradient.defined())
    check_of_channels(who, "mean_gradient", mean_gradient, options, map_sizes);
  const at::NoGradGuard no_gradient;
  at::Tensor result = at::empty(map_sizes, options, at::MemoryFormat::ChannelsLast);
  const auto data = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.const_data_ptr() : nullptr;
  };
  const kernels::ChannelMaps maps = maps_of(who, map_sizes, result.scalar_type());
  const kernels::ChannelGate gate = {.map = data(output_gradient),
                                     .gate = data(gates),
                                     .offset = data(mean_gradient),
                                     .result = result.mutable_data_ptr(),
                                     .divisor = static_cast<float>(maps.pixels)};
  dispatch<kernels::cpu::channel_gate, kernels::cuda::channel_gate>(who, result.device(), maps,
                                                                    gate);
  return result;
}

}  // namespace triaccel
