#include "triaccel/ops/conv/stem_convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "triaccel/base/error.h"
#include "triaccel/kernels/conv/stem_convolution_work.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

constexpr std::int64_t kMaxNumbers = std::int64_t{1} << 30;  // of an image; and windows

bool is_images(const at::Tensor& images) {
  return images.dim() == 4 && is_float_type(images.scalar_type()) &&
         images.layout() == at::kStrided &&
         (images.is_contiguous() || images.is_contiguous(at::MemoryFormat::ChannelsLast));
}

bool is_weight_for(const at::Tensor& weight, const at::Tensor& images) {
  return weight.dim() == 4 && weight.scalar_type() == at::kFloat &&
         weight.device() == images.device() && weight.size(1) == images.size(1) &&
         weight.size(1) >= 1 && weight.size(0) >= 1 &&
         weight.is_contiguous(at::MemoryFormat::ChannelsLast);
}

bool stem_fits(const at::Tensor& weight, const WindowPlacement& geometry) {
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t window = weight.size(static_cast<std::int64_t>(d) + 2);
    if (window < 1 || window > kernels::kMaxStemTaps || geometry.stride[d] < 1 ||
        geometry.stride[d] >= kMaxNumbers || geometry.padding[d] < 0 ||
        geometry.padding[d] >= window)
      return false;
  }
  return true;
}

/// Call it where is_images(), is_weight_for() and stem_fits() hold.
kernels::StemConvolutionShape image_shape_of(const at::Tensor& images, const at::Tensor& weight,
                                             const WindowPlacement& geometry) {
  const auto axis = [&](std::int64_t d) {
    const auto i = static_cast<std::size_t>(d);
    return kernels::fitted_windows(images.size(d + 2), weight.size(d + 2), geometry.stride[i],
                                   geometry.padding[i]);
  };
  return {.images = images.size(0),
          .channels = images.size(1),
          .filters = weight.size(0),
          .rows = axis(0),
          .columns = axis(1),
          .channels_last = images.is_contiguous(at::MemoryFormat::ChannelsLast),
          .image_type = float_type_of("stem_convolution", "images", images.scalar_type())};
}

bool device_has_stem_convolution(const at::Device& device) {
  const c10::DeviceGuard guard(device);
  return kernels::cuda::has_stem_convolution();
}

kernels::StemConvolutionShape checked_stem(std::string_view who, const at::Tensor& images,
                                           const at::Tensor& weight,
                                           const WindowPlacement& geometry, at::ScalarType type) {
  require(computes_stem_convolution(images, weight, geometry), who,
          "no kernel for these images, weight, stride and padding; ask "
          "computes_stem_convolution first");
  require(type == at::kBFloat16 || type == at::kHalf, who, "computes in bfloat16 or float16, got ",
          c10::toString(type));
  kernels::StemConvolutionShape shape = image_shape_of(images, weight, geometry);
  shape.type = float_type_of(who, "type", type);
  return shape;
}

}  // namespace

bool computes_stem_convolution(const at::Tensor& images, const at::Tensor& weight,
                               const WindowPlacement& geometry) {
  if (!images.defined() || !weight.defined() || !is_images(images) ||
      !is_weight_for(weight, images) || !stem_fits(weight, geometry))
    return false;
  const kernels::StemConvolutionShape shape = image_shape_of(images, weight, geometry);
  const std::int64_t pixels = shape.rows.input * shape.columns.input;
  const std::int64_t windows = shape.rows.output * shape.columns.output;
  return pixels > 0 && pixels * shape.channels < kMaxNumbers && windows > 0 &&
         shape.images < kMaxNumbers / windows && kernels::cut_stem_tiles(shape).has_value() &&
         (!images.is_cuda() || device_has_stem_convolution(images.device()));
}

at::Tensor stem_convolution(const at::Tensor& images, const at::Tensor& weight,
                            const WindowPlacement& geometry, at::ScalarType type) {
  constexpr std::string_view who = "stem_convolution";
  const kernels::StemConvolutionShape shape = checked_stem(who, images, weight, geometry, type);
  const at::NoGradGuard no_gradient;
  at::Tensor output =
      at::empty({shape.images, shape.filters, shape.rows.output, shape.columns.output},
                images.options().dtype(type), at::MemoryFormat::ChannelsLast);
  const void* from = images.const_data_ptr();
  const auto* filters = weight.const_data_ptr<float>();
  void* to = output.mutable_data_ptr();
  dispatch<kernels::cpu::stem_convolution, kernels::cuda::stem_convolution>(
      who, images.device(), shape, from, filters, to);
  return output;
}

at::Tensor stem_weight_gradient(const at::Tensor& output_gradient, const at::Tensor& images,
                                const at::Tensor& weight, const WindowPlacement& geometry) {
  constexpr std::string_view who = "stem_weight_gradient";
  require(output_gradient.defined(), who, "output_gradient is an undefined tensor");
  const kernels::StemConvolutionShape shape =
      checked_stem(who, images, weight, geometry, output_gradient.scalar_type());
  check_map(who, "output_gradient", output_gradient, images.device(), output_gradient.scalar_type(),
            {shape.images, shape.filters, shape.rows.output, shape.columns.output},
            /*alignment=*/16);
  const at::NoGradGuard no_gradient;
  at::Tensor gradient = at::empty_like(weight, at::MemoryFormat::Preserve);
  const void *dy = output_gradient.const_data_ptr(), *x = images.const_data_ptr();
  auto* to = gradient.mutable_data_ptr<float>();
  dispatch(
      who, images.device(), [&] { kernels::cpu::stem_weight_gradient(shape, dy, x, to); },
      [&](auto stream) {
        const at::Tensor scratch = at::empty({kernels::stem_scratch(shape)}, gradient.options());
        kernels::cuda::stem_weight_gradient(shape, dy, x, scratch.mutable_data_ptr<float>(), to,
                                            stream);
      });
  return gradient;
}

}  // namespace triaccel
