#include "triaccel/layers/convolution/convolution_parts.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "triaccel/base/divide_up.h"
#include "triaccel/layers/convolution/live_taps.h"

namespace triaccel {
namespace {

constexpr std::int64_t kPartBytes = 8 << 20;  // of the larger of input and output
constexpr std::int64_t kFloatBytes = 4;

std::int64_t outputs_per_sample(const at::Tensor& input, const at::Tensor& weight,
                                const ConvolutionGeometry& g) {
  std::int64_t outputs = weight.size(0);
  for (std::size_t i = 0; i < g.stride.size(); ++i) {
    const auto dimension = static_cast<std::int64_t>(i) + 2;
    outputs *= output_size({.map = input.size(dimension),
                            .kernel = weight.size(dimension),
                            .stride = g.stride[i],
                            .padding = g.padding[i],
                            .dilation = g.dilation[i]});
  }
  return outputs;
}

/// Calls part(first, count) for all samples, `at_once` of them at a time.
void for_parts(std::int64_t samples, std::int64_t at_once,
               const std::function<void(std::int64_t, std::int64_t)>& part) {
  for (std::int64_t first = 0; first < samples; first += at_once)
    part(first, std::min(at_once, samples - first));
}

/// Copies a part of a map to its place; the first one makes room for all.
void put(at::Tensor& whole, const at::Tensor& part, std::int64_t first, std::int64_t samples,
         at::ScalarType type) {
  if (!whole.defined()) {
    std::vector<std::int64_t> sizes = part.sizes().vec();
    sizes.front() = samples;
    whole = at::empty(sizes, part.options().dtype(type), part.suggest_memory_format());
  }
  whole.narrow(0, first, part.size(0)).copy_(part);
}

}  // namespace

std::int64_t samples_at_a_time(const at::Tensor& input, const LayerConvolution& layer) {
  const auto& [weight, geometry, precision, kernel] = layer;
  const std::int64_t samples = input.size(0);
  if (!input.is_cuda() || precision != Precision::Fp32 || geometry.transposed || samples == 0)
    return samples;
  const std::int64_t elements =
      std::max(input.numel(), samples * outputs_per_sample(input, weight.master, geometry));
  const std::int64_t parts = divide_up(kFloatBytes * elements, kPartBytes);
  return parts <= 1 ? samples : std::max<std::int64_t>(1, divide_up(samples, parts));
}

at::Tensor convolution_forward_in_parts(const at::Tensor& input, const LayerConvolution& layer,
                                        at::ScalarType output, std::int64_t samples) {
  if (samples >= input.size(0)) return convolution_forward(input, layer, output);
  const at::NoGradGuard no_grad;
  at::Tensor whole;
  for_parts(input.size(0), samples, [&](std::int64_t first, std::int64_t count) {
    put(whole, convolution_forward(input.narrow(0, first, count), layer, at::kFloat), first,
        input.size(0), output);
  });
  return whole;
}

LayerGradients convolution_backward_in_parts(const at::Tensor& output_gradient,
                                             const at::Tensor& input, const LayerConvolution& layer,
                                             const GradientTypes& types, std::int64_t samples) {
  if (samples >= input.size(0)) return convolution_backward(output_gradient, input, layer, types);
  const at::NoGradGuard no_grad;
  GradientTypes of_part = types;
  of_part.input = of_part.weight = at::kFloat;
  LayerGradients whole;
  for_parts(input.size(0), samples, [&](std::int64_t first, std::int64_t count) {
    const LayerGradients part = convolution_backward(output_gradient.narrow(0, first, count),
                                                     input.narrow(0, first, count), layer, of_part);
    if (types.want_input) put(whole.input, part.input, first, input.size(0), types.input);
    if (types.want_weight)
      whole.weight = whole.weight.defined() ? whole.weight.add_(part.weight) : part.weight;
  });
  if (types.want_weight) whole.weight = whole.weight.to(types.weight);
  return whole;
}

}  // namespace triaccel
