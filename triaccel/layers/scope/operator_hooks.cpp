#include <ATen/ATen.h>

#include "triaccel/layers/execution/operand_types.h"
#include "triaccel/layers/scope/operator_scope.h"

// What libtorch does, operands of different types brought together.

namespace triaccel {

at::Tensor OperatorHooks::convolution(const ConvolutionCall& call) {
  const at::ScalarType type = wider(call.input.scalar_type(), call.weight.scalar_type());
  const ConvolutionGeometry& g = call.geometry;
  return at::convolution(call.input.to(type), call.weight.to(type), as_type(call.bias, type),
                         g.stride, g.padding, g.dilation, g.transposed, g.output_padding, g.groups);
}

at::Tensor OperatorHooks::linear(const LinearCall& call) {
  const at::ScalarType type = wider(call.input.scalar_type(), call.weight.scalar_type());
  return at::linear(call.input.to(type), call.weight.to(type), as_type(call.bias, type));
}

at::Tensor OperatorHooks::embedding(const at::Tensor& weight, const at::Tensor& indices,
                                    std::int64_t padding_idx, bool scale_grad_by_freq,
                                    bool sparse) {
  return at::embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse);
}

at::Tensor OperatorHooks::batch_norm(const BatchNormCall& call) {
  return at::batch_norm(call.input, call.weight, call.bias, call.running_mean, call.running_var,
                        call.training, call.momentum, call.eps,
                        at::globalContext().userEnabledCuDNN());
}

at::Tensor OperatorHooks::dropout(const at::Tensor& input, double probability, bool training) {
  return at::dropout(input, probability, training);
}

at::Tensor OperatorHooks::attention(const AttentionCall& call) {
  const at::ScalarType type =
      wider(call.query.scalar_type(), wider(call.key.scalar_type(), call.value.scalar_type()));
  const bool adds = call.mask && call.mask->defined() && call.mask->is_floating_point();
  return at::scaled_dot_product_attention(call.query.to(type), call.key.to(type),
                                          call.value.to(type),
                                          adds ? as_type(call.mask, type) : call.mask, call.dropout,
                                          call.causal, call.scale, call.grouped_queries);
}

at::Tensor& OperatorHooks::bernoulli(at::Tensor& mask, double probability,
                                     const std::optional<at::Generator>& generator) {
  return mask.bernoulli_(probability, generator);
}

}  // namespace triaccel
