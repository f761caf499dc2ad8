#include "triaccel/ops/tensors/skinny_gemm.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "triaccel/base/error.h"
#include "triaccel/kernels/common/skinny_gemm.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

bool is_plain_matrix(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.dim() == 2 &&
         tensor.is_contiguous() && is_float_type(tensor.scalar_type());
}

kernels::SkinnyGemm checked_product(std::string_view who, std::string_view name,
                                    const at::Tensor& matrix, const at::Tensor& weight) {
  require(takes_skinny_gemm(matrix, weight), who, name,
          " and weight must be contiguous matrices of one type, float32, bfloat16 or float16, on "
          "one device, the weight with 1 to ",
          kernels::kMaxSkinnyOutputs, " rows and at most ", kernels::kMaxSkinnyFeatures,
          " columns; ask takes_skinny_gemm first");
  return {.rows = matrix.size(0),
          .features = weight.size(1),
          .outputs = weight.size(0),
          .type = float_type_of(who, name, matrix.scalar_type())};
}

}  // namespace

bool takes_skinny_gemm(const at::Tensor& matrix, const at::Tensor& weight) {
  return is_plain_matrix(matrix) && is_plain_matrix(weight) && weight.size(0) > 0 &&
         weight.size(0) <= kernels::kMaxSkinnyOutputs &&
         weight.size(1) <= kernels::kMaxSkinnyFeatures &&
         matrix.scalar_type() == weight.scalar_type() && matrix.device() == weight.device();
}

at::Tensor skinny_gemm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  constexpr std::string_view who = "skinny_gemm";
  const kernels::SkinnyGemm shape = checked_product(who, "input", input, weight);
  check_contiguous(who, "input", input, weight.device(), weight.scalar_type(),
                   {-1, shape.features});
  if (bias.defined())
    check_contiguous(who, "bias", bias, weight.device(), at::kFloat, {shape.outputs});
  const at::NoGradGuard no_gradient;
  at::Tensor output = at::empty({shape.rows, shape.outputs}, input.options());
  const void *from = input.const_data_ptr(), *factors = weight.const_data_ptr();
  const float* offsets = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  void* to = output.mutable_data_ptr();
  dispatch<kernels::cpu::skinny_gemm, kernels::cuda::skinny_gemm>(who, input.device(), shape, from,
                                                                  factors, offsets, to);
  return output;
}

at::Tensor skinny_input_gradient(const at::Tensor& output_gradient, const at::Tensor& weight) {
  constexpr std::string_view who = "skinny_input_gradient";
  const kernels::SkinnyGemm shape =
      checked_product(who, "output_gradient", output_gradient, weight);
  check_contiguous(who, "output_gradient", output_gradient, weight.device(), weight.scalar_type(),
                   {-1, shape.outputs});
  const at::NoGradGuard no_gradient;
  at::Tensor gradient = at::empty({shape.rows, shape.features}, output_gradient.options());
  const void *from = output_gradient.const_data_ptr(), *factors = weight.const_data_ptr();
  void* to = gradient.mutable_data_ptr();
  dispatch<kernels::cpu::skinny_input_gradient, kernels::cuda::skinny_input_gradient>(
      who, weight.device(), shape, from, factors, to);
  return gradient;
}

}  // namespace triaccel
