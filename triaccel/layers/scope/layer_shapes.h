#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "triaccel/layers/convolution/kernel_choice_measure.h"

namespace triaccel {

/// The shapes that the layers of a network meet when it is given `input`, scaled up from its
/// samples to `samples`. Runs one forward pass without gradients: put the network into evaluation
/// mode first. A layer that the pass does not reach keeps empty sizes.
std::vector<LayerShape> record_layer_shapes(
    const std::function<at::Tensor(const at::Tensor&)>& forward,
    const std::vector<at::Tensor>& weights, const at::Tensor& input, std::int64_t samples);

}  // namespace triaccel
