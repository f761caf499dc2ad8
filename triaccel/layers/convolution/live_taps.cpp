#include "triaccel/layers/convolution/live_taps.h"

#include <ATen/ATen.h>

#include "triaccel/base/divide_up.h"

namespace triaccel {
namespace {

/// Whether some output reads the map through this tap.
bool meets_map(const TapGeometry& g, std::int64_t tap, std::int64_t outputs) {
  const std::int64_t start = tap * g.dilation - g.padding;  // position seen by output 0
  const std::int64_t first = start >= 0 ? 0 : divide_up(-start, g.stride);
  return first < outputs && start + first * g.stride < g.map;
}

/// [first dimension, all numbers behind it], channels innermost.
at::Tensor as_rows(const at::Tensor& tensor) {
  return tensor.permute({0, 2, 3, 1}).contiguous().view({tensor.size(0), -1});
}

}  // namespace

std::int64_t output_size(const TapGeometry& g) {
  const std::int64_t room = g.map + 2 * g.padding - g.dilation * (g.kernel - 1) - 1;
  return room < 0 ? 0 : room / g.stride + 1;
}

LiveTaps live_taps(const TapGeometry& g) {
  const LiveTaps all{.first = 0, .last = g.kernel, .padding = g.padding};
  const std::int64_t outputs = output_size(g);
  LiveTaps live = all;
  while (live.first < live.last && !meets_map(g, live.first, outputs)) ++live.first;
  while (live.last > live.first && !meets_map(g, live.last - 1, outputs)) --live.last;
  live.padding = g.padding - live.first * g.dilation;
  TapGeometry cropped = g;
  cropped.kernel = live.last - live.first;
  cropped.padding = live.padding;
  const bool same = cropped.kernel > 0 && cropped.padding >= 0 && output_size(cropped) == outputs;
  return same ? live : all;
}

std::optional<WeightPart> whole_map_part(const at::Tensor& input, const at::Tensor& weight,
                                         const ConvolutionGeometry& g) {
  if (input.dim() != 4 || input.numel() == 0 || g.transposed || g.groups != 1) return {};
  WeightPart part;
  std::int64_t meetings = 1, windows = 1, taps = 1;
  for (std::size_t d = 0; d < 2; ++d) {
    const auto dimension = static_cast<std::int64_t>(d) + 2;
    const TapGeometry along{.map = input.size(dimension),
                            .kernel = weight.size(dimension),
                            .stride = g.stride[d],
                            .padding = g.padding[d],
                            .dilation = g.dilation[d]};
    // Window i sees pixel p through tap padding + p - i * stride.
    part.first_tap[d] = along.padding;
    part.last_tap[d] = along.padding + along.map;
    part.boxes[d] = output_size(along);
    part.step[d] = along.stride;
    if (along.dilation != 1 || part.boxes[d] < 1 || part.last_tap[d] > along.kernel ||
        part.first_tap[d] < (part.boxes[d] - 1) * part.step[d])
      return {};
    windows *= part.boxes[d];
    meetings *= part.boxes[d] * along.map;
    taps *= along.kernel;
  }
  if (windows == 1 || meetings > 2 * taps) return {};
  return part;
}

at::Tensor whole_map_product(const at::Tensor& input, const at::Tensor& matrix,
                             const WeightPart& part) {
  return at::mm(as_rows(input), as_rows(matrix).t())
      .view({input.size(0), part.boxes[0], part.boxes[1], -1})
      .permute({0, 3, 1, 2});
}

at::Tensor whole_map_input_gradient(const at::Tensor& output_gradient, const at::Tensor& input,
                                    const at::Tensor& matrix) {
  return at::mm(as_rows(output_gradient), as_rows(matrix))
      .view({input.size(0), input.size(2), input.size(3), input.size(1)})
      .permute({0, 3, 1, 2});
}

}  // namespace triaccel
