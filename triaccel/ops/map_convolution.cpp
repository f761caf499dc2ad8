#include "triaccel/ops/map_convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "triaccel/base/error.h"
#include "triaccel/kernels/map_convolution_work.h"
#include "triaccel/ops/dispatch.h"
#include "triaccel/ops/tensor_check.h"

namespace triaccel {
namespace {

constexpr std::int64_t kMostPixels = 65535 * kernels::kMapTile;  // tiles are blocks along y
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 31;

bool lies_at_16_bytes(const at::Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 16 == 0;
}

/// Dense and channels-last, of channels that kernels take by 64.
bool is_map(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  return tensor.dim() == 4 && (type == at::kBFloat16 || type == at::kHalf) &&
         tensor.layout() == at::kStrided && tensor.size(1) > 0 &&
         tensor.size(1) % kernels::kMapChannels == 0 &&
         tensor.is_contiguous(at::MemoryFormat::ChannelsLast) && lies_at_16_bytes(tensor);
}

kernels::MapConvolutionShape map_shape_of(const at::Tensor& map, const at::Tensor& weight,
                                          const WindowPlacement& geometry) {
  const auto axis = [&](std::int64_t d) {
    const auto i = static_cast<std::size_t>(d);
    return kernels::fitted_windows(map.size(d + 2), weight.size(d + 2), geometry.stride[i],
                                   geometry.padding[i]);
  };
  return {.samples = map.size(0),
          .channels = map.size(1),
          .filters = weight.size(0),
          .rows = axis(0),
          .columns = axis(1),
          .type = float_type_of("map_convolution", "map", map.scalar_type())};
}

bool has_windows(const kernels::WindowAxis& axis) {
  return axis.window >= 1 && axis.stride >= 1 && axis.stride < kMostPixels && axis.padding >= 0 &&
         axis.padding < axis.window && axis.input >= 1 && axis.output >= 1;
}

bool device_has_map_convolution(const at::Device& device) {
  const c10::DeviceGuard guard(device);
  return kernels::cuda::has_map_convolution();
}

bool takes_map(const at::Tensor& map, const at::Tensor& weight, const WindowPlacement& geometry) {
  if (!map.defined() || !weight.defined() || !is_map(map) || !is_map(weight) ||
      weight.scalar_type() != map.scalar_type() || weight.device() != map.device() ||
      weight.size(1) != map.size(1) || weight.size(0) == 0 ||
      weight.size(0) % kernels::kMapChannels != 0 || geometry.stride[0] < 1 ||
      geometry.stride[1] < 1)
    return false;
  const kernels::MapConvolutionShape shape = map_shape_of(map, weight, geometry);
  const std::int64_t read = shape.rows.input * shape.columns.input;
  const std::int64_t written = shape.rows.output * shape.columns.output;
  return has_windows(shape.rows) && has_windows(shape.columns) &&
         shape.samples * read <= kMostPixels && shape.samples * written <= kMostPixels &&
         read * shape.channels < kMostNumbers && written * shape.filters < kMostNumbers &&
         weight.numel() < kMostNumbers &&
         (!map.is_cuda() || device_has_map_convolution(map.device()));
}

}  // namespace

bool computes_map_convolution(const at::Tensor& map, const at::Tensor& weight,
                              const WindowPlacement& geometry) {
  return takes_map(map, weight, geometry) &&
         kernels::cut_map_product(kernels::forward_product(map_shape_of(map, weight, geometry)))
             .has_value();
}

bool computes_map_input_gradient(const at::Tensor& map, const at::Tensor& weight,
                                 const WindowPlacement& geometry) {
  return takes_map(map, weight, geometry) && geometry.stride[0] == 1 && geometry.stride[1] == 1 &&
         kernels::cut_map_product(kernels::gradient_product(map_shape_of(map, weight, geometry)))
             .has_value();
}

at::Tensor map_convolution(const at::Tensor& map, const at::Tensor& weight,
                           const WindowPlacement& geometry) {
  constexpr std::string_view who = "map_convolution";
  require(computes_map_convolution(map, weight, geometry), who,
          "no kernel for this map, weight, stride and padding; ask computes_map_convolution first");
  const kernels::MapConvolutionShape shape = map_shape_of(map, weight, geometry);
  const at::NoGradGuard no_gradient;
  at::Tensor output =
      at::empty({shape.samples, shape.filters, shape.rows.output, shape.columns.output},
                map.options(), at::MemoryFormat::ChannelsLast);
  const void *from = map.const_data_ptr(), *by = weight.const_data_ptr();
  void* to = output.mutable_data_ptr();
  dispatch(
      who, map.device(), [&] { kernels::cpu::map_convolution(shape, from, by, to); },
      [&](cudaStream_t stream) { kernels::cuda::map_convolution(shape, from, by, to, stream); });
  return output;
}

at::Tensor map_input_gradient(const at::Tensor& output_gradient, const at::Tensor& map,
                              const at::Tensor& weight, const WindowPlacement& geometry) {
  constexpr std::string_view who = "map_input_gradient";
  require(
      computes_map_input_gradient(map, weight, geometry), who,
      "no kernel for this map, weight, stride and padding; ask computes_map_input_gradient first");
  const kernels::MapConvolutionShape shape = map_shape_of(map, weight, geometry);
  check_tensor(who, "output_gradient", output_gradient, map.device(), map.scalar_type());
  const std::array<std::int64_t, 4> wanted = {shape.samples, shape.filters, shape.rows.output,
                                              shape.columns.output};
  require(output_gradient.sizes() == at::IntArrayRef(wanted), who,
          "output_gradient must have shape ", at::IntArrayRef(wanted), ", got ",
          output_gradient.sizes());
  require(output_gradient.is_contiguous(at::MemoryFormat::ChannelsLast) &&
              lies_at_16_bytes(output_gradient),
          who,
          "output_gradient must be dense and channels-last, at a multiple of 16 bytes; call "
          "clone(ChannelsLast) on it");
  const at::NoGradGuard no_gradient;
  at::Tensor gradient = at::empty(map.sizes(), map.options(), at::MemoryFormat::ChannelsLast);
  const void *from = output_gradient.const_data_ptr(), *by = weight.const_data_ptr();
  void* to = gradient.mutable_data_ptr();
  dispatch(
      who, map.device(), [&] { kernels::cpu::map_input_gradient(shape, from, by, to); },
      [&](cudaStream_t stream) { kernels::cuda::map_input_gradient(shape, from, by, to, stream); });
  return gradient;
}

}  // namespace triaccel
