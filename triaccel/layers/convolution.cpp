#include "triaccel/layers/convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <tuple>
#include <vector>

#include "triaccel/layers/gemm_convolution.h"
#include "triaccel/layers/live_taps.h"
#include "triaccel/layers/rounding.h"

namespace triaccel {
namespace {

/// A convolution without the taps that only ever meet padding.
struct Cropped {
  ConvolutionGeometry geometry;
  std::vector<LiveTaps> taps;  // one entry a dimension; empty when all taps are live

  /// The part of a weight, or of its gradient, that is left.
  at::Tensor part_of(at::Tensor weight) const {
    for (std::size_t i = 0; i < taps.size(); ++i)
      weight = weight.slice(static_cast<std::int64_t>(i) + 2, taps[i].first, taps[i].last);
    return weight;
  }
};

/// Below this many weights left out, cutting them out takes longer than multiplying by them: the
/// small kernels of depthwise convolutions above all.
constexpr std::int64_t kLeastLeftOut = 1 << 14;

Cropped crop(const at::Tensor& input, const at::Tensor& weight,
             const ConvolutionGeometry& geometry) {
  Cropped cropped{.geometry = geometry, .taps = {}};
  if (geometry.transposed || weight.numel() < kLeastLeftOut) return cropped;
  std::int64_t live_weights = weight.size(0) * weight.size(1);
  for (std::size_t i = 0; i < geometry.stride.size(); ++i) {
    const std::int64_t dimension = static_cast<std::int64_t>(i) + 2;
    const LiveTaps live = live_taps({.map = input.size(dimension),
                                     .kernel = weight.size(dimension),
                                     .stride = geometry.stride[i],
                                     .padding = geometry.padding[i],
                                     .dilation = geometry.dilation[i]});
    live_weights *= live.last - live.first;
    cropped.geometry.padding[i] = live.padding;
    cropped.taps.push_back(live);
  }
  if (weight.numel() - live_weights < kLeastLeftOut) return {.geometry = geometry, .taps = {}};
  return cropped;
}

/// Whether every sample has one pixel of output, which the kernel covers the whole map for.
bool is_one_product(const at::Tensor& input, const at::Tensor& weight,
                    const ConvolutionGeometry& geometry) {
  if (geometry.groups != 1 || geometry.transposed || input.dim() != 4) return false;
  for (std::int64_t d = 2; d < 4; ++d)
    if (input.size(d) != weight.size(d) || geometry.padding[static_cast<std::size_t>(d - 2)] != 0)
      return false;
  return true;
}

/// On a GPU only a convolution that is one plain product and has one pixel of output a sample is
/// taken from cuDNN, which has no fast kernel for it.
bool runs_as_gemm(const at::Tensor& input, const at::Tensor& weight,
                  const ConvolutionGeometry& geometry, ConvolutionKernel kernel) {
  if (input.is_cpu())
    return kernel.algorithm == ConvolutionAlgorithm::Gemm && gemm_computes(geometry);
  return is_one_product(input, weight, geometry);
}

/// Copied into its own memory: libtorch's kernels would otherwise copy it each in their own way.
at::Tensor live_weight(const at::Tensor& weight, const Cropped& cropped, Precision precision,
                       Arithmetic arithmetic) {
  const at::Tensor part = cropped.part_of(weight);
  return operand(cropped.taps.empty() ? part : part.contiguous(weight.suggest_memory_format()),
                 precision, arithmetic);
}

}  // namespace

at::Tensor convolution_forward(const at::Tensor& input, const at::Tensor& weight,
                               const ConvolutionGeometry& geometry, Precision precision,
                               ConvolutionKernel kernel, at::ScalarType output) {
  const at::NoGradGuard no_grad;
  const Cropped cropped = crop(input, weight, geometry);
  const ConvolutionGeometry& g = cropped.geometry;
  const at::Tensor x = operand(input, precision, kernel.arithmetic);
  const at::Tensor w = live_weight(weight, cropped, precision, kernel.arithmetic);
  const at::Tensor y = runs_as_gemm(x, w, g, kernel)
                           ? gemm_convolution(x, w, g)
                           : at::convolution(x, w, {}, g.stride, g.padding, g.dilation,
                                             g.transposed, g.output_padding, g.groups);
  return y.to(output);
}

ConvolutionGradients convolution_backward(const at::Tensor& output_gradient,
                                          const at::Tensor& input, const at::Tensor& weight,
                                          const ConvolutionGeometry& geometry, Precision precision,
                                          ConvolutionKernel kernel, const GradientTypes& types) {
  const at::NoGradGuard no_grad;
  const Cropped cropped = crop(input, weight, geometry);
  const ConvolutionGeometry& g = cropped.geometry;
  const at::Tensor dy = operand(output_gradient, precision, kernel.arithmetic);
  const at::Tensor x = operand(input, precision, kernel.arithmetic);
  const at::Tensor w = live_weight(weight, cropped, precision, kernel.arithmetic);
  ConvolutionGradients gradients;
  if (runs_as_gemm(x, w, g, kernel)) {
    if (types.want_input) gradients.input = gemm_input_gradient(dy, x, w, g);
    if (types.want_weight) gradients.weight = gemm_weight_gradient(dy, x, w, g);
  } else {
    std::tie(gradients.input, gradients.weight, std::ignore) = at::convolution_backward(
        dy, x, w, c10::nullopt, g.stride, g.padding, g.dilation, g.transposed, g.output_padding,
        g.groups, {types.want_input, types.want_weight, false});
  }
  if (types.want_input) gradients.input = gradients.input.to(types.input);
  if (!types.want_weight) return gradients;
  if (cropped.taps.empty()) {
    gradients.weight = gradients.weight.to(types.weight);
  } else {
    const at::Tensor whole = at::zeros_like(weight, weight.options().dtype(types.weight));
    cropped.part_of(whole).copy_(gradients.weight);
    gradients.weight = whole;
  }
  return gradients;
}

}  // namespace triaccel
