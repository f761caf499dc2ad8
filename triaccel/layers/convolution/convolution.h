#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/core/precision.h"
#include "triaccel/layers/execution/prepared_weights.h"
#include "triaccel/layers/scope/operator_scope.h"

namespace triaccel {

/// Which code computes a convolution.
enum class ConvolutionAlgorithm {
  Stock,  // libtorch's: cuDNN on a GPU, oneDNN or its own loops on a CPU
  Gemm,   // patches of the input as rows of a matrix, times the weights; CPU only
};

/// What the numbers are multiplied in.
enum class Arithmetic {
  Native,  // the layer's own type
  Fp32,    // FP32, on values rounded to the layer's type: where the hardware lacks it
};

/// How one layer computes in one precision.
struct ConvolutionKernel {
  ConvolutionAlgorithm algorithm = ConvolutionAlgorithm::Stock;
  Arithmetic arithmetic = Arithmetic::Native;
  bool operator==(const ConvolutionKernel&) const = default;
};

/// A layer's FP32 weight, and where 16-bit copies of it may lie ready.
struct LayerWeight {
  // NOLINTNEXTLINE(google-explicit-constructor): a weight alone is one without copies
  LayerWeight(const at::Tensor& weight) : master(weight) {}
  LayerWeight(const at::Tensor& weight, std::int64_t of_layer, PreparedWeights* copies)
      : master(weight), layer(of_layer), prepared(copies) {}

  const at::Tensor& master;
  std::int64_t layer = 0;
  PreparedWeights* prepared = nullptr;
};

/// Whether such a layer reads its FP32 input as it is, without a 16-bit copy: the first of an image
/// network on a GPU, which our own kernels compute.
bool is_stem_convolution(const at::Tensor& input, const at::Tensor& weight,
                         const ConvolutionGeometry& geometry, Precision precision);

/// A convolution without bias as its layer computes it.
struct LayerConvolution {
  LayerWeight weight;
  const ConvolutionGeometry& geometry;
  Precision precision;
  ConvolutionKernel kernel;
};

/// Its output. `input` may be of any floating type; it and the weight are rounded to the layer's
/// precision, the result to `output`. Taps of the kernel that only ever meet padding are skipped.
/// No autograd.
at::Tensor convolution_forward(const at::Tensor& input, const LayerConvolution& layer,
                               at::ScalarType output);

struct LayerGradients {
  at::Tensor input = {};   // undefined when not asked for
  at::Tensor weight = {};  // likewise
};

/// Which gradients are asked for, and in which types.
struct GradientTypes {
  bool want_input = true;
  bool want_weight = true;
  at::ScalarType input = at::kFloat;
  at::ScalarType weight = at::kFloat;
  /// The input's gradient may have the even pixels alone (as even_pixels gives them) where the
  /// others are zero.
  bool even_pixels = false;
};

/// The gradients of convolution_forward, each rounded to the type asked for (the weight's with
/// exact zeros for taps that only meet padding). `output_gradient` is rounded to the layer's
/// precision first.
LayerGradients convolution_backward(const at::Tensor& output_gradient, const at::Tensor& input,
                                    const LayerConvolution& layer, const GradientTypes& types);

}  // namespace triaccel
