#include "triaccel/layers/execution/linear_product.h"

#include <ATen/ATen.h>

#include "triaccel/layers/execution/gradient_delivery.h"
#include "triaccel/layers/execution/rounding.h"

namespace triaccel {
at::Tensor linear_forward(const at::Tensor& input, const LayerWeight& weight,
                          const at::Tensor& bias, Precision precision, Arithmetic arithmetic,
                          at::ScalarType output) {
  const at::Tensor rows = operand(input.reshape({-1, input.size(-1)}), precision, arithmetic);
  const at::Tensor factors = weight_operand(weight, {}, precision, arithmetic);
  std::vector<std::int64_t> shape = input.sizes().vec();
  shape.back() = weight.master.size(0);
  at::Tensor product = at::mm(rows, factors.t()).to(output).view(shape);
  if (bias.defined()) add_bias_along(product, bias, product.dim() - 1);
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
    gradients.input = at::mm(rows, factors).to(types.input).view(input.sizes());
  }
  return gradients;
}

}  // namespace triaccel
