#include "triaccel/layers/linear_product.h"

#include <ATen/ATen.h>

#include "triaccel/layers/rounding.h"
#include "triaccel/layers/weight_operand.h"

namespace triaccel {

at::Tensor linear_forward(const at::Tensor& input, const LayerWeight& weight, Precision precision,
                          Arithmetic arithmetic, at::ScalarType output) {
  const at::Tensor rows = input.reshape({-1, input.size(-1)});
  const at::Tensor product = at::mm(operand(rows, precision, arithmetic),
                                    weight_operand(weight, {}, precision, arithmetic).t());
  std::vector<std::int64_t> shape = input.sizes().vec();
  shape.back() = weight.master.size(0);
  return product.to(output).view(shape);
}

LinearGradients linear_backward(const at::Tensor& output_gradient, const at::Tensor& input,
                                const LayerWeight& weight, Precision precision,
                                Arithmetic arithmetic, const GradientTypes& types) {
  const at::Tensor rows =
      operand(output_gradient.reshape({-1, output_gradient.size(-1)}), precision, arithmetic);
  const at::Tensor inputs = operand(input.reshape({-1, input.size(-1)}), precision, arithmetic);
  LinearGradients gradients;
  if (types.want_weight) gradients.weight = at::mm(rows.t(), inputs).to(types.weight);
  if (types.want_input)
    gradients.input = at::mm(rows, weight_operand(weight, {}, precision, arithmetic))
                          .to(types.input)
                          .view(input.sizes());
  return gradients;
}

}  // namespace triaccel
