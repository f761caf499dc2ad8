#include "triaccel/layers/execution/linear_product.h"

#include <ATen/ATen.h>

#include "triaccel/layers/execution/layer_bias.h"
#include "triaccel/layers/execution/rounding.h"
#include "triaccel/ops/tensors/skinny_gemm.h"

namespace triaccel {
namespace {

// Multiplications from which on cuBLAS is faster (kernel_rates).
constexpr std::int64_t kManyProducts = 1 << 23;

/// In 16 bits alone: an FP32 plan computes as libtorch does.
bool is_skinny_on_gpu(const at::Tensor& rows, const at::Tensor& factors) {
  return rows.is_cuda() && rows.element_size() == 2 && takes_skinny_gemm(rows, factors) &&
         rows.size(0) * factors.numel() < kManyProducts;
}

}  // namespace

at::Tensor linear_forward(const at::Tensor& input, const LayerWeight& weight,
                          const at::Tensor& bias, Precision precision, Arithmetic arithmetic,
                          at::ScalarType output) {
  const at::Tensor rows = operand(input.reshape({-1, input.size(-1)}), precision, arithmetic);
  const at::Tensor factors = weight_operand(weight, {}, precision, arithmetic);
  std::vector<std::int64_t> shape = input.sizes().vec();
  shape.back() = weight.master.size(0);
  const bool skinny = is_skinny_on_gpu(rows, factors);
  const bool fuses_bias = skinny && bias.defined() && rows.scalar_type() == output &&
                          bias.scalar_type() == at::kFloat && bias.is_contiguous();
  at::Tensor product = skinny ? skinny_gemm(rows, factors, fuses_bias ? bias : at::Tensor())
                              : at::mm(rows, factors.t());
  product = product.to(output).view(shape);
  if (bias.defined() && !fuses_bias) add_bias_along(product, bias, product.dim() - 1);
  return product;
}

LayerGradients linear_backward(const at::Tensor& output_gradient, const at::Tensor& input,
                               const LayerWeight& weight, Precision precision,
                               Arithmetic arithmetic, const GradientTypes& types) {
  const at::Tensor rows =
      operand(output_gradient.reshape({-1, output_gradient.size(-1)}), precision, arithmetic);
  const at::Tensor inputs = operand(input.reshape({-1, input.size(-1)}), precision, arithmetic);
  LayerGradients gradients;
  if (types.want_weight) gradients.weight = at::mm(rows.t(), inputs).to(types.weight);
  if (types.want_input) {
    const at::Tensor factors = weight_operand(weight, {}, precision, arithmetic);
    const at::Tensor product = is_skinny_on_gpu(rows, factors)
                                   ? skinny_input_gradient(rows, factors)
                                   : at::mm(rows, factors);
    gradients.input = product.to(types.input).view(input.sizes());
  }
  return gradients;
}

}  // namespace triaccel
