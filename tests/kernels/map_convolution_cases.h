#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/kernels/map_convolution.h"

namespace triaccel::kernels {

struct MapConvolutionCase {
  std::int64_t samples, channels, filters, height, width;
  std::int64_t taps_down, taps_across, stride, padding;
  at::ScalarType type = at::kBFloat16;

  MapConvolutionShape shape() const {
    return {.samples = samples,
            .channels = channels,
            .filters = filters,
            .rows = fitted_windows(height, taps_down, stride, padding),
            .columns = fitted_windows(width, taps_across, stride, padding),
            .type = type == at::kHalf ? FloatType::F16 : FloatType::Bf16};
  }
  std::string name() const {
    return text(samples, " x ", channels, " x ", height, " x ", width, " to ", filters, ", ",
                taps_down, " x ", taps_across, "/", stride, ", padding ", padding, ", ",
                c10::toString(type));
  }
};

/// The layers of ResNet-18 at 32 pixels, and what is odd: one pixel, last tiles of one sample, maps
/// that are not square, windows larger than the map, taps that meet nothing, clusters of 1 to 8;
/// and maps that only the oracle takes.
inline std::vector<MapConvolutionCase> map_convolution_cases() {
  return {{5, 64, 64, 8, 8, 3, 3, 1, 1},
          {5, 64, 128, 8, 8, 3, 3, 2, 1},
          {5, 64, 128, 8, 8, 1, 1, 2, 0},
          {7, 128, 128, 4, 4, 3, 3, 1, 1},
          {7, 128, 256, 4, 4, 3, 3, 2, 1},
          {7, 256, 256, 2, 2, 3, 3, 1, 1},
          {7, 256, 512, 2, 2, 2, 2, 2, 0},
          {7, 512, 256, 1, 1, 1, 1, 1, 0},
          {1, 64, 64, 1, 1, 3, 3, 1, 1},
          {65, 64, 64, 1, 1, 1, 1, 1, 0},
          {3, 64, 64, 2, 8, 5, 3, 1, 2},
          {3, 192, 64, 4, 1, 3, 1, 1, 0},
          {9, 64, 192, 12, 12, 3, 3, 3, 0},
          {2, 64, 64, 2, 2, 5, 5, 1, 2},
          {3, 192, 128, 6, 10, 3, 3, 1, 0},
          {3, 64, 64, 5, 7, 3, 3, 1, 1},
          {3, 64, 64, 4, 4, 3, 3, 1, 1, at::kHalf},
          {3, 128, 64, 8, 4, 3, 3, 2, 1, at::kHalf}};
}

/// As the kernels want them; `gradient` is that of the output.
struct MapTensors {
  at::Tensor map, weight, gradient;

  explicit MapTensors(const MapConvolutionCase& c)
      : MapTensors(c, [](at::IntArrayRef sizes) { return at::randn(sizes); }) {}

  template <typename Make>
  MapTensors(const MapConvolutionCase& c, Make make) {
    const MapConvolutionShape s = c.shape();
    const auto made = [&](at::IntArrayRef sizes) {
      return make(sizes).to(c.type).contiguous(at::MemoryFormat::ChannelsLast);
    };
    map = made({c.samples, c.channels, c.height, c.width});
    weight = made({c.filters, c.channels, c.taps_down, c.taps_across});
    gradient = made({c.samples, c.filters, s.rows.output, s.columns.output});
  }

  at::Tensor empty_output() const { return at::full_like(gradient, 12345); }
  at::Tensor empty_input_gradient() const { return at::full_like(map, 12345); }
};

/// Half a unit in the last place of a 16-bit result, and what FP32 sums of `terms` leave behind.
inline bool is_close(const at::Tensor& found, const at::Tensor& exact,
                     const at::Tensor& magnitude) {
  const double last = found.scalar_type() == at::kHalf ? 0x1p-11 : 0x1p-8;
  const at::Tensor error = (found.to(at::kDouble).cpu() - exact).abs();
  return (error <= 1.01 * last * exact.abs() + 1e-5 * magnitude + 1e-7).all().item<bool>();
}

}  // namespace triaccel::kernels
