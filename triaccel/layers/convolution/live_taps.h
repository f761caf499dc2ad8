#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "triaccel/layers/convolution/convolution.h"

namespace triaccel {

/// A convolution along one dimension.
struct TapGeometry {
  std::int64_t map = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // on either side
  std::int64_t dilation = 1;
};

/// The taps [first, last) of the kernel, and the padding with which they alone compute the same
/// output.
struct LiveTaps {
  std::int64_t first = 0;
  std::int64_t last = 0;  // one past
  std::int64_t padding = 0;
  bool operator==(const LiveTaps&) const = default;
};

/// The outputs of a convolution along one dimension; 0 when the kernel does not fit.
std::int64_t output_size(const TapGeometry& geometry);

/// The range of taps that meet the map for at least one output; the others multiply padding only.
/// 3 taps with padding 1 on a map of one pixel: the middle one, without padding. All taps where no
/// symmetric padding would give the shorter kernel the same outputs.
LiveTaps live_taps(const TapGeometry& geometry);

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
