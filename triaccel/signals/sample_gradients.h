#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "triaccel/layers/scope/operator_scope.h"

namespace triaccel {

/// Per-sample gradients with respect to one weight, from one use of the weight in the forward pass.
/// Never stored entirely: slices are computed on demand.
struct SampleGradients {
  std::int64_t slices = 1;       // of the weight: its columns, input channels or groups
  std::int64_t slice_bytes = 0;  // workspace per slice
  std::int64_t map_bytes = 0;    // of the layer's input and output gradient, which it holds
  std::function<at::Tensor(std::int64_t first, std::int64_t count)> slice = {};  // [samples, *]
  std::function<at::Tensor()> gram = {};  // the Gram matrix directly, if cheaper
};

struct GramSize {
  std::int64_t samples = 0;
  std::int64_t workspace_bytes = 0;
  std::int64_t workspace_per_map = 0;  // or this multiple of map_bytes, whichever is larger
};

/// Of a matrix [rows, columns] that maps right [samples, ..., columns] to an output with gradient
/// left [samples, ..., rows].
SampleGradients product_gradients(const at::Tensor& left, const at::Tensor& right,
                                  const GramSize& size);

/// Of a convolution's weight with these kernel sizes; any dimension, grouped or transposed.
SampleGradients convolution_gradients(const at::Tensor& input, const at::Tensor& output_gradient,
                                      at::IntArrayRef kernel, const ConvolutionGeometry& geometry,
                                      const GramSize& size);

/// Of a table [rows, columns] looked up at `indices` [samples, ...].
SampleGradients table_gradients(const at::Tensor& indices, const at::Tensor& output_gradient,
                                std::int64_t rows, std::int64_t padding_index,
                                const GramSize& size);

/// Of a bias along dimension `channels` of the output.
SampleGradients bias_gradients(const at::Tensor& output_gradient, std::int64_t channels,
                               const GramSize& size);

/// Gram matrix of per-sample gradients, [samples, samples], summed over the `uses` of one weight.
at::Tensor gram_of(const std::vector<SampleGradients>& uses, const GramSize& size);

}  // namespace triaccel
