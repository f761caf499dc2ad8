#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "triaccel/core/layer_registry.h"
#include "triaccel/layers/convolution/kernel_choice.h"

namespace triaccel {

/// What a layer is given to compute.
struct LayerShape {
  LayerKind kind = LayerKind::Convolution;
  std::vector<std::int64_t> input = {};   // sizes; the samples first
  std::vector<std::int64_t> weight = {};  // sizes
  ConvolutionGeometry geometry = {};      // of a convolution
  bool channels_last = true;              // how images and kernels lie in memory
  bool want_input_gradient = true;        // false for the first layer of a network
};

struct MeasureOptions {
  double most_seconds = 5;  // in all; layers not reached by then get the fixed choice
};

/// Runs forward and backward of every candidate on layers of these shapes and takes the fastest, or
/// the fixed choice where that is nearly as fast; layers of equal shape are run once. A candidate
/// that fails or is far slower than the others on one sample is skipped early. Never throws for
/// what a candidate does: where none can be run, the choice is the fixed one, as it always is on a
/// GPU. Draws no number from libtorch's generators.
KernelChoices measure_kernels(std::span<const LayerShape> layers, c10::Device device,
                              const MeasureOptions& options = {});

/// The fixed choice for each of these layers.
KernelChoices fixed_kernels(std::span<const LayerShape> layers, c10::Device device);

/// The shapes that the layers of a network meet when it is given `input`, scaled up from its
/// samples to `samples`. Runs one forward pass without gradients: put the network into evaluation
/// mode first. A layer that the pass does not reach keeps empty sizes.
std::vector<LayerShape> record_layer_shapes(
    const std::function<at::Tensor(const at::Tensor&)>& forward,
    const std::vector<at::Tensor>& weights, const at::Tensor& input, std::int64_t samples);

}  // namespace triaccel
