#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/core/precision.h"
#include "triaccel/layers/convolution/convolution.h"

namespace triaccel {

/// How libtorch calls a precision.
at::ScalarType scalar_type_of(Precision precision);

/// A tensor as a product in `precision` reads it: rounded to that type, and for FP32 arithmetic
/// widened again.
at::Tensor operand(const at::Tensor& tensor, Precision precision, Arithmetic arithmetic);

/// The part of a weight that a product reads, rounded to `precision` as operand() rounds: the copy
/// that lies ready, or one made now. In its own memory: libtorch's kernels would otherwise copy it
/// each in their own way.
at::Tensor weight_operand(const LayerWeight& weight, const WeightPart& part, Precision precision,
                          Arithmetic arithmetic);

}  // namespace triaccel
