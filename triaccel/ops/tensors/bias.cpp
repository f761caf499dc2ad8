#include "triaccel/ops/tensors/bias.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "triaccel/base/error.h"
#include "triaccel/kernels/common/bias.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

std::int64_t channel_dimension(const at::Tensor& tensor) {
  return tensor.dim() == 4 ? 1 : tensor.dim() - 1;
}

kernels::BiasedMatrix checked_matrix(std::string_view who, std::string_view name,
                                     const at::Tensor& tensor) {
  require(takes_bias(tensor), who, name,
          " must be float32, bfloat16 or float16 and a contiguous [rows, channels] or a "
          "channels-last [N, channels, H, W]; check takes_bias() first");
  const std::int64_t channels = tensor.size(channel_dimension(tensor));
  return {.rows = tensor.numel() / channels,
          .channels = channels,
          .type = float_type_of(who, name, tensor.scalar_type())};
}

}  // namespace

bool takes_bias(const at::Tensor& matrix_or_map) {
  if (!matrix_or_map.defined() || matrix_or_map.layout() != at::kStrided) return false;
  const std::int64_t dimensions = matrix_or_map.dim();
  return is_float_type(matrix_or_map.scalar_type()) && dimensions >= 2 && dimensions <= 4 &&
         matrix_or_map.size(channel_dimension(matrix_or_map)) > 0 &&
         matrix_or_map.is_contiguous(dimensions == 4 ? at::MemoryFormat::ChannelsLast
                                                     : at::MemoryFormat::Contiguous);
}

void add_bias(const at::Tensor& matrix_or_map, const at::Tensor& bias) {
  constexpr std::string_view who = "add_bias";
  const kernels::BiasedMatrix shape = checked_matrix(who, "matrix_or_map", matrix_or_map);
  check_contiguous(who, "bias", bias, matrix_or_map.device(), at::kFloat, {shape.channels});
  const auto* offsets = bias.const_data_ptr<float>();
  void* matrix = matrix_or_map.mutable_data_ptr();
  dispatch<kernels::cpu::add_bias, kernels::cuda::add_bias>(who, matrix_or_map.device(), shape,
                                                            offsets, matrix);
}

at::Tensor bias_gradient(const at::Tensor& output_gradient) {
  constexpr std::string_view who = "bias_gradient";
  const kernels::BiasedMatrix shape = checked_matrix(who, "output_gradient", output_gradient);
  const at::NoGradGuard no_gradient;
  const at::TensorOptions floats = output_gradient.options().dtype(at::kFloat);
  at::Tensor sums = at::empty({shape.channels}, floats);
  const void* from = output_gradient.const_data_ptr();
  auto* to = sums.mutable_data_ptr<float>();
  dispatch(
      who, output_gradient.device(), [&] { kernels::cpu::bias_gradient(shape, from, to); },
      [&](auto stream) {
        const at::Tensor scratch = at::empty({kernels::bias_gradient_scratch(shape)}, floats);
        kernels::cuda::bias_gradient(shape, from, scratch.mutable_data_ptr<float>(), to, stream);
      });
  return sums;
}

}  // namespace triaccel
