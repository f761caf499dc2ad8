#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "triaccel/layers/convolution/convolution.h"

namespace triaccel {

// A convolution in which every window sees the whole map, such as three taps with padding on two by
// two pixels, is one product of matrices: samples by [pixels * in] times [windows * out, pixels *
// in]. It takes 4 multiplications where windows of 3 x 3 taps take 9, 5 of them by padding.

/// The part of the weight that is such a matrix: for every window the taps that it sees the map
/// through. Empty where a window does not see all of it, where one window is all there is (then the
/// convolution is a product already), and where the matrix would be more than twice the weight.
std::optional<WeightPart> whole_map_part(const at::Tensor& input, const at::Tensor& weight,
                                         const ConvolutionGeometry& geometry);

/// The output, with channels last in memory. `matrix` is that part, [windows * out, in, rows,
/// columns], in the input's type.
at::Tensor whole_map_product(const at::Tensor& input, const at::Tensor& matrix,
                             const WeightPart& part);

/// The gradient of the input, of the shape `input`, likewise.
at::Tensor whole_map_input_gradient(const at::Tensor& output_gradient, const at::Tensor& input,
                                    const at::Tensor& matrix);

}  // namespace triaccel
