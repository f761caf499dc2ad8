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

}  // namespace triaccel
