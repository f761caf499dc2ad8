#include "triaccel/ops/conv/depthwise.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "triaccel/base/error.h"
#include "triaccel/kernels/common/window_axis.h"
#include "triaccel/kernels/conv/depthwise.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

constexpr std::int64_t kMaxPixels = std::int64_t{1} << 31;
constexpr std::size_t kMapAlignment = 8;  // bytes

bool is_map(const at::Tensor& map) {
  return map.dim() == 4 && is_float_type(map.scalar_type()) && map.layout() == at::kStrided &&
         map.is_contiguous(at::MemoryFormat::ChannelsLast) &&
         reinterpret_cast<std::uintptr_t>(map.const_data_ptr()) % kMapAlignment == 0;
}

kernels::DepthwiseAxis axis_of(std::int64_t input, std::int64_t filter, std::int64_t stride,
                               std::int64_t padding) {
  return {.input = input,
          .output = kernels::fitted_windows(input, filter, stride, padding).output,
          .padding = padding};
}

/// The shape as the kernels know it; call it where computes_depthwise holds.
kernels::DepthwiseShape depthwise_shape(const at::Tensor& input, const at::Tensor& weight,
                                        const WindowPlacement& geometry) {
  const std::int64_t filter = weight.size(2);
  const auto [row_stride, column_stride] = geometry.stride;
  return {.images = input.size(0),
          .channels = input.size(1),
          .rows = axis_of(input.size(2), filter, row_stride, geometry.padding[0]),
          .columns = axis_of(input.size(3), filter, column_stride, geometry.padding[1]),
          .filter = static_cast<int>(filter),
          .stride = static_cast<int>(row_stride),
          .type = float_type_of("depthwise", "input", input.scalar_type())};
}

kernels::DepthwiseShape checked_depthwise(std::string_view who, const at::Tensor& input,
                                          const at::Tensor& weight,
                                          const WindowPlacement& geometry) {
  require(computes_depthwise(input, weight, geometry), who,
          "no kernel for this input, weight, stride and padding; check computes_depthwise() first");
  return depthwise_shape(input, weight, geometry);
}

void check_output_gradient(std::string_view who, const at::Tensor& gradient,
                           const at::Tensor& input, const kernels::DepthwiseShape& shape) {
  check_map(who, "output_gradient", gradient, input.device(), input.scalar_type(),
            {shape.images, shape.channels, shape.rows.output, shape.columns.output}, kMapAlignment);
}

}  // namespace

bool computes_depthwise(const at::Tensor& input, const at::Tensor& weight,
                        const WindowPlacement& geometry) {
  if (!input.defined() || !weight.defined() || !is_map(input)) return false;
  const bool weight_fits = weight.dim() == 4 && weight.scalar_type() == at::kFloat &&
                           weight.device() == input.device() && weight.size(0) == input.size(1) &&
                           weight.size(1) == 1 && weight.size(2) == weight.size(3) &&
                           (weight.size(2) == 3 || weight.size(2) == 5) && weight.is_contiguous();
  const auto [row_stride, column_stride] = geometry.stride;
  if (!weight_fits || row_stride != column_stride || row_stride < 1 || row_stride > 2) return false;
  for (const std::int64_t padding : geometry.padding)
    if (padding < 0 || padding >= weight.size(2)) return false;
  const kernels::DepthwiseShape shape = depthwise_shape(input, weight, geometry);
  if (shape.rows.input < 1 || shape.columns.input < 1 || shape.rows.output < 1 ||
      shape.columns.output < 1)
    return false;
  const std::int64_t larger =
      std::max(shape.rows.input * shape.columns.input, shape.rows.output * shape.columns.output);
  return shape.images < kMaxPixels / larger;
}

at::Tensor depthwise_forward(const at::Tensor& input, const at::Tensor& weight,
                             const WindowPlacement& geometry) {
  constexpr std::string_view who = "depthwise_forward";
  const kernels::DepthwiseShape shape = checked_depthwise(who, input, weight, geometry);
  const at::NoGradGuard no_gradient;
  at::Tensor output =
      at::empty({shape.images, shape.channels, shape.rows.output, shape.columns.output},
                input.options(), at::MemoryFormat::ChannelsLast);
  const void* from = input.const_data_ptr();
  const auto* filters = weight.const_data_ptr<float>();
  void* to = output.mutable_data_ptr();
  dispatch<kernels::cpu::depthwise_forward, kernels::cuda::depthwise_forward>(
      who, input.device(), shape, from, filters, to);
  return output;
}

at::Tensor depthwise_input_gradient(const at::Tensor& output_gradient, const at::Tensor& input,
                                    const at::Tensor& weight, const WindowPlacement& geometry) {
  constexpr std::string_view who = "depthwise_input_gradient";
  const kernels::DepthwiseShape shape = checked_depthwise(who, input, weight, geometry);
  check_output_gradient(who, output_gradient, input, shape);
  const at::NoGradGuard no_gradient;
  at::Tensor gradient = at::empty(input.sizes(), input.options(), at::MemoryFormat::ChannelsLast);
  const void* from = output_gradient.const_data_ptr();
  const auto* filters = weight.const_data_ptr<float>();
  void* to = gradient.mutable_data_ptr();
  dispatch<kernels::cpu::depthwise_input_gradient, kernels::cuda::depthwise_input_gradient>(
      who, input.device(), shape, from, filters, to);
  return gradient;
}

at::Tensor depthwise_weight_gradient(const at::Tensor& output_gradient, const at::Tensor& input,
                                     const at::Tensor& weight, const WindowPlacement& geometry) {
  constexpr std::string_view who = "depthwise_weight_gradient";
  const kernels::DepthwiseShape shape = checked_depthwise(who, input, weight, geometry);
  check_output_gradient(who, output_gradient, input, shape);
  const at::NoGradGuard no_gradient;
  at::Tensor gradient = at::empty_like(weight, at::MemoryFormat::Preserve);
  const void *dy = output_gradient.const_data_ptr(), *x = input.const_data_ptr();
  auto* to = gradient.mutable_data_ptr<float>();
  dispatch(
      who, input.device(), [&] { kernels::cpu::depthwise_weight_gradient(shape, dy, x, to); },
      [&](auto stream) {
        const at::Tensor scratch =
            at::empty({kernels::depthwise_scratch(shape)}, gradient.options());
        kernels::cuda::depthwise_weight_gradient(shape, dy, x, scratch.mutable_data_ptr<float>(),
                                                 to, stream);
      });
  return gradient;
}

}  // namespace triaccel
