#include "triaccel/layers/convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <tuple>
#include <vector>

#include "triaccel/layers/gemm_convolution.h"
#include "triaccel/layers/live_taps.h"
#include "triaccel/layers/rounding.h"
#include "triaccel/layers/weight_operand.h"
#include "triaccel/ops/depthwise.h"
#include "triaccel/ops/even_pixels.h"
#include "triaccel/ops/image_patches.h"

namespace triaccel {
namespace {

/// A convolution without the taps that only ever meet padding.
struct Cropped {
  ConvolutionGeometry geometry;
  WeightPart part;  // of the weight that is left
};

/// Below this many weights left out, cutting them out takes longer than multiplying by them: the
/// small kernels of depthwise convolutions above all.
constexpr std::int64_t kLeastLeftOut = 1 << 14;

Cropped crop(const at::Tensor& input, const at::Tensor& weight,
             const ConvolutionGeometry& geometry) {
  Cropped cropped{.geometry = geometry, .part = {}};
  if (input.dim() != 4 || geometry.transposed || weight.numel() < kLeastLeftOut) return cropped;
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
  return weight.numel() - live_weights < kLeastLeftOut ? all : cropped;
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
/// output a sample, for which cuDNN has no fast kernel, and in FP32, where cuDNN only takes longer
/// to choose one.
bool runs_as_gemm(const at::Tensor& input, const at::Tensor& weight,
                  const ConvolutionGeometry& geometry, ConvolutionKernel kernel) {
  if (input.is_cpu())
    return kernel.algorithm == ConvolutionAlgorithm::Gemm && gemm_computes(geometry);
  if (is_one_product(input, weight, geometry)) return true;
  return input.scalar_type() == at::kFloat && input.dim() == 4 &&
         input.is_contiguous(at::MemoryFormat::ChannelsLast) &&
         gemm_needs_no_patches(input, weight, geometry);
}

DepthwiseGeometry depthwise(const ConvolutionGeometry& g) {
  return {.stride = {g.stride[0], g.stride[1]}, .padding = {g.padding[0], g.padding[1]}};
}

/// Whether our own kernels compute a convolution in which every channel has its own filter:
/// libtorch's are slow on a GPU in 16 bits.
bool is_own_depthwise(const at::Tensor& input, const at::Tensor& weight,
                      const ConvolutionGeometry& g) {
  return input.is_cuda() && !g.transposed && g.groups == weight.size(0) && weight.size(1) == 1 &&
         input.dim() == 4 && g.dilation[0] == 1 && g.dilation[1] == 1 &&
         computes_depthwise(input, weight, depthwise(g));
}

PatchGeometry patches(const ConvolutionGeometry& g, const at::Tensor& weight) {
  return {.window = {weight.size(2), weight.size(3)},
          .stride = {g.stride[0], g.stride[1]},
          .padding = {g.padding[0], g.padding[1]}};
}

/// Calls part(windows of some samples as a matrix, its first row) for all samples. Where a window
/// is longer than the `outputs` it makes, the matrix is larger than any map of the layer: a third
/// of it is there at a time.
void for_patches(const at::Tensor& input, const PatchGeometry& windows, at::ScalarType type,
                 std::int64_t windows_a_sample, std::int64_t outputs,
                 const std::function<void(const at::Tensor& rows, std::int64_t first)>& part) {
  constexpr std::int64_t parts = 3;
  const std::int64_t samples = input.size(0);
  const bool is_large = patch_columns(input.size(1), windows) > outputs;
  const std::int64_t at_once = is_large ? (samples + parts - 1) / parts : samples;
  for (std::int64_t first = 0; first < samples; first += at_once)
    part(image_patches(input.narrow(0, first, std::min(at_once, samples - first)), windows, type),
         first * windows_a_sample);
}

at::Tensor patches_forward(const at::Tensor& input, const LayerWeight& weight,
                           const ConvolutionGeometry& g, Precision precision) {
  const PatchGeometry windows = patches(g, weight.master);
  const at::Tensor w =
      weight_operand(weight, {.matrix_columns = patch_columns(input.size(1), windows)}, precision,
                     Arithmetic::Native);
  const auto outputs = [&](std::size_t i) {
    return (input.size(static_cast<std::int64_t>(i) + 2) + 2 * windows.padding[i] -
            windows.window[i]) /
               windows.stride[i] +
           1;
  };
  const std::int64_t windows_a_sample = outputs(0) * outputs(1);
  const at::Tensor output = at::empty({input.size(0) * windows_a_sample, w.size(0)}, w.options());
  for_patches(input, windows, w.scalar_type(), windows_a_sample, w.size(0),
              [&](const at::Tensor& rows, std::int64_t first) {
                at::Tensor place = output.narrow(0, first, rows.size(0));
                at::mm_out(place, rows, w.t());
              });
  return output.view({input.size(0), outputs(0), outputs(1), w.size(0)}).permute({0, 3, 1, 2});
}

at::Tensor patches_weight_gradient(const at::Tensor& dy, const at::Tensor& input,
                                   const at::Tensor& weight, const ConvolutionGeometry& g) {
  const at::Tensor pixels = dy.permute({0, 2, 3, 1}).reshape({-1, dy.size(1)});
  const at::Tensor matrix = weight_matrix(weight);
  at::Tensor sum;
  for_patches(input, patches(g, weight), dy.scalar_type(), dy.size(2) * dy.size(3), dy.size(1),
              [&](const at::Tensor& rows, std::int64_t first) {
                const at::Tensor of_rows = pixels.narrow(0, first, rows.size(0)).t();
                if (sum.defined())
                  sum.addmm_(of_rows, rows);
                else
                  sum = at::mm(of_rows, rows);
              });
  return sum.narrow(1, 0, matrix.size(1))
      .contiguous()
      .view({weight.size(0), weight.size(2), weight.size(3), weight.size(1)})
      .permute({0, 3, 1, 2});
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

/// The gradients of a convolution that reads even pixels. The input's is a product and zeros;
/// cuDNN would write the zeros, too.
ConvolutionGradients even_pixels_backward(const at::Tensor& dy, const at::Tensor& x,
                                          const at::Tensor& w, const ConvolutionGeometry& g,
                                          const GradientTypes& types) {
  ConvolutionGradients gradients;
  if (types.want_input) {
    gradients.input = pixels_times(dy, w.reshape({w.size(0), -1})).to(types.input);
    if (!types.even_pixels) gradients.input = spread_even_pixels(gradients.input, x.sizes());
  }
  if (types.want_weight)
    gradients.weight = std::get<1>(
        at::convolution_backward(dy, x, w, c10::nullopt, g.stride, g.padding, g.dilation,
                                 g.transposed, g.output_padding, g.groups, {false, true, false}));
  return gradients;
}

/// While it lives, cuDNN measures its kernels for a convolution that it has not met yet and keeps
/// the fastest: for large maps 2 % of a whole step on an H200. Small ones take what it chooses
/// unmeasured; searches there came out slower.
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

/// The gradients of a depthwise convolution by our own kernels. In FP16 the weight's must be FP16
/// too, since that is what says that it carries the layer's scale; otherwise FP32 costs nothing.
ConvolutionGradients depthwise_backward(const at::Tensor& dy, const at::Tensor& x,
                                        const at::Tensor& weight, const DepthwiseGeometry& g,
                                        const GradientTypes& types) {
  ConvolutionGradients gradients;
  if (types.want_input)
    gradients.input = depthwise_input_gradient(dy, x, weight, g).to(types.input);
  if (types.want_weight) gradients.weight = depthwise_weight_gradient(dy, x, weight, g);
  if (types.want_weight && types.weight == at::kHalf)
    gradients.weight = gradients.weight.to(at::kHalf);
  return gradients;
}

}  // namespace

// Few channels suit no convolution kernel, and nobody asks for the gradient of an image.
bool is_product_of_patches(const at::Tensor& input, const at::Tensor& weight,
                           const ConvolutionGeometry& g, Precision precision) {
  constexpr std::int64_t few_channels = 4;
  return input.is_cuda() && bytes_per_element(precision) < 4 && !g.transposed && g.groups == 1 &&
         input.dim() == 4 && input.size(1) <= few_channels && g.dilation[0] == 1 &&
         g.dilation[1] == 1 && weight.is_contiguous(at::MemoryFormat::ChannelsLast) &&
         cuts_patches(input, patches(g, weight));
}

at::Tensor convolution_forward(const at::Tensor& input, const LayerWeight& weight,
                               const ConvolutionGeometry& geometry, Precision precision,
                               ConvolutionKernel kernel, at::ScalarType output) {
  const at::NoGradGuard no_grad;
  if (is_product_of_patches(input, weight.master, geometry, precision))
    return patches_forward(input, weight, geometry, precision).to(output);
  const at::Tensor x = operand(input, precision, kernel.arithmetic);
  if (is_own_depthwise(x, weight.master, geometry))
    return depthwise_forward(x, weight.master, depthwise(geometry)).to(output);
  const Cropped cropped = crop(input, weight.master, geometry);
  const ConvolutionGeometry& g = cropped.geometry;
  const at::Tensor w = weight_operand(weight, cropped.part, precision, kernel.arithmetic);
  if (is_sparse_product(x, w, g)) return sparse_product(x, w, g).to(output);
  const KernelSearch search(x, w);
  const at::Tensor y = runs_as_gemm(x, w, g, kernel)
                           ? gemm_convolution(x, w, g)
                           : at::convolution(x, w, {}, g.stride, g.padding, g.dilation,
                                             g.transposed, g.output_padding, g.groups);
  return y.to(output);
}

ConvolutionGradients convolution_backward(const at::Tensor& output_gradient,
                                          const at::Tensor& input, const LayerWeight& weight,
                                          const ConvolutionGeometry& geometry, Precision precision,
                                          ConvolutionKernel kernel, const GradientTypes& types) {
  const at::NoGradGuard no_grad;
  const at::Tensor dy = operand(output_gradient, precision, kernel.arithmetic);
  if (!types.want_input && is_product_of_patches(input, weight.master, geometry, precision))
    return {.weight = patches_weight_gradient(dy, input, weight.master, geometry).to(types.weight)};
  const at::Tensor x = operand(input, precision, kernel.arithmetic);
  if (is_own_depthwise(x, weight.master, geometry))
    return depthwise_backward(dy, x, weight.master, depthwise(geometry), types);
  const Cropped cropped = crop(input, weight.master, geometry);
  const ConvolutionGeometry& g = cropped.geometry;
  const at::Tensor w = weight_operand(weight, cropped.part, precision, kernel.arithmetic);
  ConvolutionGradients gradients;
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
