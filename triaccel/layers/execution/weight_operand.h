#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/core/precision.h"
#include "triaccel/layers/convolution/convolution.h"

namespace triaccel {

/// The part of a weight that a product reads, rounded to `precision` as operand() rounds: the copy
/// that lies ready, or one made now. In its own memory: libtorch's kernels would otherwise copy it
/// each in their own way.
at::Tensor weight_operand(const LayerWeight& weight, const WeightPart& part, Precision precision,
                          Arithmetic arithmetic);

}  // namespace triaccel
