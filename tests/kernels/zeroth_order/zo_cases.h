#pragma once

#include <cstdint>
#include <vector>

#include "tests/kernels/common/tensor_bunch.h"
#include "triaccel/kernels/zeroth_order/zo_noise.h"

namespace triaccel::kernels {

inline constexpr std::int32_t kGridExponent = -22;

/// Weights on a grid, one tensor of them channels-last, and a history of two directions and three
/// steps.
struct ZoCase {
  TensorBunch bunch{awkward_sizes()};
  std::vector<ZoTensor> tensors;
  std::vector<float> rates = {1e-3f, 2e-3f, 0};
  std::vector<float> history = {0.5f, -2, 1, 0, -3, 7};
  ZoBoard board{.seed = 5, .step = 11, .epsilon = 1e-2f};

  ZoCase() {
    std::int64_t first = 0;
    for (at::Tensor& weights : bunch.parameters) {
      weights = (weights * 0x1p22).round().clamp(-0x1p22, 0x1p22) * 0x1p-22 + 0.0;  // no -0.0
      tensors.push_back({.first = first, .exponent = kGridExponent});
      first += (weights.numel() + kZoGroup - 1) / kZoGroup * kZoGroup;
    }
    tensors[9].inner_rows = 50;  // of 100,000 elements
    tensors[9].inner_columns = 20;
  }

  /// With the records at `records`, which is in the memory of the weights.
  static std::vector<TensorEntry> entries(const TensorBunch& of, const ZoTensor* records) {
    std::vector<TensorEntry> list = of.entries();
    for (std::size_t i = 0; i < list.size(); ++i) list[i].gradient = records + i;
    return list;
  }
};

}  // namespace triaccel::kernels
