#include "triaccel/layers/convolution/convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <optional>
#include <tuple>
#include <vector>

#include "triaccel/layers/convolution/gemm_convolution.h"
#include "triaccel/layers/convolution/live_taps.h"
#include "triaccel/layers/execution/rounding.h"
#include "triaccel/ops/conv/depthwise.h"
#include "triaccel/ops/conv/stem_convolution.h"
#include "triaccel/ops/tensors/even_pixels.h"

namespace triaccel {
namespace {

/// A convolution without the taps that only ever meet padding.
struct Cropped {
  ConvolutionGeometry geometry;
  WeightPart part;  // of the weight that is left
};

/// Below this many skipped weights, cutting them out takes longer than multiplying by them: the
/// small kernels of depthwise convolutions above all.
constexpr std::int64_t kLeastSkipped = 1 << 14;

Cropped crop(const at::Tensor& input, const at::Tensor& weight,
             const ConvolutionGeometry& geometry) {
  Cropped cropped{.geometry = geometry, .part = {}};
  if (input.dim() != 4 || geometry.transposed || weight.numel() < kLeastSkipped) return cropped;
  Cropped all = cropped;
  std::int64_t live_weights = weight.size(0) * weight.size(1);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t dimension = static_cast<std::int64_t>(i) + 2;
    const LiveTaps live = live_taps({.map = input.size(dimension),
                                     .kernel = weight.size(dimension),
                                     .stride = geometry.stride[i],
                                     .padding = geometry.padding[i],
                                     .dilation = geometry.dilation[i]});
    live_weights *= live.last - live.first;
    cropped.geometry.padding[i] = live.padding;
    cropped.part.first_tap[i] = live.first;
    cropped.part.last_tap[i] = live.last;
  }
  return weight.numel() - live_weights < kLeastSkipped ? all : cropped;
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

/// On a GPU a convolution that is one plain product is taken from cuDNN where it has one pixel of
/// output per sample, for which cuDNN has no fast kernel, and in FP32, where cuDNN only takes
/// longer to choose one.
bool runs_as_gemm(const at::Tensor& input, const at::Tensor& weight,
                  const ConvolutionGeometry& geometry, ConvolutionKernel kernel) {
  if (input.is_cpu())
    return kernel.algorithm == ConvolutionAlgorithm::Gemm && gemm_computes(geometry);
  if (is_one_product(input, weight, geometry)) return true;
  return input.scalar_type() == at::kFloat && input.dim() == 4 &&
         input.is_contiguous(at::MemoryFormat::ChannelsLast) &&
         gemm_needs_no_patches(input, weight, geometry);
}

WindowPlacement windows_of(const ConvolutionGeometry& g) {
  return {.stride = {g.stride[0], g.stride[1]}, .padding = {g.padding[0], g.padding[1]}};
}

/// Whether our own kernels compute a convolution in which every channel has its own filter:
/// libtorch's are slow on a GPU in 16 bits.
bool is_own_depthwise(const at::Tensor& input, const at::Tensor& weight,
                      const ConvolutionGeometry& g) {
  return input.is_cuda() && !g.transposed && g.groups == weight.size(0) && weight.size(1) == 1 &&
         input.dim() == 4 && g.dilation[0] == 1 && g.dilation[1] == 1 &&
         computes_depthwise(input, weight, windows_of(g));
}

/// A 1x1 convolution with a stride on a large map, as in the shortcuts of residual networks: cuDNN
/// may choose to turn the whole map around for it.
bool is_sparse_product(const at::Tensor& x, const at::Tensor& weight,
                       const ConvolutionGeometry& g) {
  constexpr std::int64_t large = 1 << 22;
  return x.is_cuda() && x.dim() == 4 && x.numel() >= large && !g.transposed && g.groups == 1 &&
         weight.size(2) == 1 && weight.size(3) == 1 && g.padding[0] == 0 && g.padding[1] == 0 &&
         (g.stride[0] > 1 || g.stride[1] > 1) && x.scalar_type() != at::kFloat &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast);
}

/// Whether what such a convolution reads is the even pixels.
bool reads_even_pixels(const at::Tensor& x, const at::Tensor& weight,
                       const ConvolutionGeometry& g) {
  return is_sparse_product(x, weight, g) && g.stride[0] == 2 && g.stride[1] == 2 &&
         takes_even_pixels(x);
}

/// Every pixel of a map times a matrix.
at::Tensor pixels_times(const at::Tensor& map, const at::Tensor& matrix) {
  const at::Tensor pixels = map.permute({0, 2, 3, 1}).contiguous();
  std::vector<std::int64_t> shape = pixels.sizes().vec();
  shape.back() = matrix.size(1);
  return at::mm(pixels.view({-1, pixels.size(3)}), matrix).view(shape).permute({0, 3, 1, 2});
}

at::Tensor sparse_product(const at::Tensor& x, const at::Tensor& w, const ConvolutionGeometry& g) {
  const at::Tensor read =
      reads_even_pixels(x, w, g)
          ? even_pixels(x)
          : x.slice(2, 0, c10::nullopt, g.stride[0]).slice(3, 0, c10::nullopt, g.stride[1]);
  return pixels_times(read, w.reshape({w.size(0), -1}).t());
}

/// The weight's gradient by libtorch, which reads the weight's shape and type alone.
at::Tensor stock_weight_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                                 const ConvolutionGeometry& g) {
  return std::get<1>(at::convolution_backward(dy, x, w, c10::nullopt, g.stride, g.padding,
                                              g.dilation, g.transposed, g.output_padding, g.groups,
                                              {false, true, false}));
}

/// The gradients of a convolution that reads even pixels. The input's is a product and zeros;
/// cuDNN would write the zeros, too.
LayerGradients even_pixels_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                                    const ConvolutionGeometry& g, const GradientTypes& types) {
  LayerGradients gradients;
  if (types.want_input) {
    gradients.input = pixels_times(dy, w.reshape({w.size(0), -1})).to(types.input);
    if (!types.even_pixels) gradients.input = scatter_even_pixels(gradients.input, x.sizes());
  }
  if (types.want_weight) gradients.weight = stock_weight_gradient(dy, x, w, g);
  return gradients;
}

bool has_plain_windows(const at::Tensor& x, const ConvolutionGeometry& g) {
  return x.is_cuda() && !g.transposed && g.groups == 1 && x.dim() == 4 && g.dilation[0] == 1 &&
         g.dilation[1] == 1;
}

/// While it lives, cuDNN benchmarks its kernels for a convolution that it has not met yet and keeps
/// the fastest. Only for large maps: on small ones the heuristic's choice is the faster one.
class [[nodiscard]] KernelSearch {
 public:
  KernelSearch(const at::Tensor& x, const at::Tensor& weight) {
    constexpr std::size_t large = 16 << 20;
    if (x.is_cuda() && x.nbytes() >= large && weight.dim() == 4 &&
        weight.size(2) * weight.size(3) > 1 && !at::globalContext().deterministicCuDNN())
      at::globalContext().setBenchmarkCuDNN(true);
  }
  ~KernelSearch() { at::globalContext().setBenchmarkCuDNN(before_); }
  KernelSearch(const KernelSearch&) = delete;
  KernelSearch& operator=(const KernelSearch&) = delete;

 private:
  bool before_ = at::globalContext().benchmarkCuDNN();
};

/// Whether, and by which part of its weight, a convolution of small maps is multiplied as one
/// product, which is faster than what cuDNN has for it. Only for large batches: with small ones the
/// step waits for concurrent updates instead, and the matrix takes memory (docs/fast_path.md).
std::optional<WeightPart> product_part(const at::Tensor& x, const at::Tensor& weight,
                                       const ConvolutionGeometry& g) {
  constexpr std::int64_t large_batch = 256;
  if (!x.is_cuda() || x.element_size() != 2 || x.size(0) < large_batch ||
      weight.numel() < kLeastSkipped || !weight.is_non_overlapping_and_dense())
    return {};
  return whole_map_part(x, weight, g);
}

/// Of the weight's shape and the matrix's type, whatever its values: in the memory of `matrix`
/// where that is large enough.
at::Tensor in_the_shape_of(const at::Tensor& weight, const at::Tensor& matrix) {
  return matrix.numel() >= weight.numel()
             ? matrix.as_strided(weight.sizes(), weight.strides())
             : at::empty_strided(weight.sizes(), weight.strides(), matrix.options());
}

LayerGradients product_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& matrix,
                                const at::Tensor& weight, const ConvolutionGeometry& g,
                                const GradientTypes& types) {
  LayerGradients gradients;
  if (types.want_input) gradients.input = whole_map_input_gradient(dy, x, matrix).to(types.input);
  if (types.want_weight)
    gradients.weight =
        stock_weight_gradient(dy, x, in_the_shape_of(weight, matrix), g).to(types.weight);
  return gradients;
}

/// A weight's gradient as our own kernels give it, in FP32, which costs nothing. In FP16 it must be
/// FP16 too, since that is what says that it carries the layer's scale.
at::Tensor own_weight_gradient(const at::Tensor& gradient, const GradientTypes& types) {
  return types.weight == at::kHalf ? gradient.to(at::kHalf) : gradient;
}

/// As our kernels read maps: channels last, from an address that a pack of channels may have.
at::Tensor readable_map(const at::Tensor& map) {
  constexpr std::uintptr_t pack_bytes = 8;
  const at::Tensor dense = map.contiguous(at::MemoryFormat::ChannelsLast);
  const auto address = reinterpret_cast<std::uintptr_t>(dense.const_data_ptr());
  return address % pack_bytes == 0 ? dense : dense.clone();
}

/// The gradients of a depthwise convolution by our own kernels.
LayerGradients depthwise_backward(const at::Tensor& output_gradient, const at::Tensor& x,
                                  const at::Tensor& weight, const WindowPlacement& g,
                                  const GradientTypes& types) {
  const at::Tensor dy = readable_map(output_gradient);
  LayerGradients gradients;
  if (types.want_input)
    gradients.input = depthwise_input_gradient(dy, x, weight, g).to(types.input);
  if (types.want_weight)
    gradients.weight = own_weight_gradient(depthwise_weight_gradient(dy, x, weight, g), types);
  return gradients;
}

}  // namespace

// Few channels suit no convolution kernel of others, and nobody asks for the gradient of an image.
bool is_stem_convolution(const at::Tensor& input, const at::Tensor& weight,
                         const ConvolutionGeometry& g, Precision precision) {
  return bytes_per_element(precision) < 4 && has_plain_windows(input, g) &&
         computes_stem_convolution(input, weight, windows_of(g));
}

at::Tensor convolution_forward(const at::Tensor& input, const LayerConvolution& layer,
                               at::ScalarType output) {
  const auto& [weight, geometry, precision, kernel] = layer;
  const at::NoGradGuard no_grad;
  if (is_stem_convolution(input, weight.master, geometry, precision))
    return stem_convolution(input, weight.master, windows_of(geometry), scalar_type_of(precision))
        .to(output);
  const at::Tensor x = operand(input, precision, kernel.arithmetic);
  if (is_own_depthwise(x, weight.master, geometry))
    return depthwise_forward(x, weight.master, windows_of(geometry)).to(output);
  if (const auto part = product_part(x, weight.master, geometry))
    return whole_map_product(x, weight_operand(weight, *part, precision, kernel.arithmetic), *part)
        .to(output);
  const Cropped cropped = crop(input, weight.master, geometry);
  const ConvolutionGeometry& g = cropped.geometry;
  const at::Tensor w = weight_operand(weight, cropped.part, precision, kernel.arithmetic);
  if (is_sparse_product(x, w, g)) return sparse_product(x, w, g).to(output);
  if (runs_as_gemm(x, w, g, kernel)) return gemm_convolution(x, w, g).to(output);
  const KernelSearch search(x, w);
  return at::convolution(x, w, {}, g.stride, g.padding, g.dilation, g.transposed, g.output_padding,
                         g.groups)
      .to(output);
}

LayerGradients convolution_backward(const at::Tensor& output_gradient, const at::Tensor& input,
                                    const LayerConvolution& layer, const GradientTypes& types) {
  const auto& [weight, geometry, precision, kernel] = layer;
  const at::NoGradGuard no_grad;
  const at::Tensor dy = operand(output_gradient, precision, kernel.arithmetic);
  if (!types.want_input && is_stem_convolution(input, weight.master, geometry, precision))
    return {.weight = own_weight_gradient(
                stem_weight_gradient(dy.contiguous(at::MemoryFormat::ChannelsLast), input,
                                     weight.master, windows_of(geometry)),
                types)};
  const at::Tensor x = operand(input, precision, kernel.arithmetic);
  if (is_own_depthwise(x, weight.master, geometry))
    return depthwise_backward(dy, x, weight.master, windows_of(geometry), types);
  if (const auto part = product_part(x, weight.master, geometry))
    return product_backward(dy, x, weight_operand(weight, *part, precision, kernel.arithmetic),
                            weight.master, geometry, types);
  const Cropped cropped = crop(input, weight.master, geometry);
  const ConvolutionGeometry& g = cropped.geometry;
  const at::Tensor w = weight_operand(weight, cropped.part, precision, kernel.arithmetic);
  LayerGradients gradients;
  if (reads_even_pixels(x, w, g)) {
    gradients = even_pixels_backward(dy, x, w, g, types);
  } else if (runs_as_gemm(x, w, g, kernel)) {
    if (types.want_input) gradients.input = gemm_input_gradient(dy, x, w, g);
    if (types.want_weight) gradients.weight = gemm_weight_gradient(dy, x, w, g);
  } else {
    const KernelSearch search(x, w);
    std::tie(gradients.input, gradients.weight, std::ignore) = at::convolution_backward(
        dy, x, w, c10::nullopt, g.stride, g.padding, g.dilation, g.transposed, g.output_padding,
        g.groups, {types.want_input, types.want_weight, false});
  }
  if (types.want_input) gradients.input = gradients.input.to(types.input);
  if (types.want_weight) gradients.weight = gradients.weight.to(types.weight);
  if (types.want_weight && cropped.part != WeightPart{})
    gradients.weight = whole_gradient(gradients.weight, weight.master, cropped.part.first_tap,
                                      cropped.part.last_tap);
  return gradients;
}

}  // namespace triaccel
