#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/tensor_bunch.h"
#include "triaccel/kernels/gradient_moments.h"

namespace triaccel::kernels {

/// Layer moments in FP64, one element after the other.
inline std::vector<LayerMoments> moments_in_fp64(const TensorBunch& bunch, double loss_scale) {
  std::vector<LayerMoments> layers(3);
  for (std::size_t i = 0; i < bunch.gradients.size(); ++i) {
    LayerMoments& layer = layers[i % 3];
    const at::Tensor values = bunch.gradients[i].cpu().to(at::kDouble);
    for (std::int64_t k = 0; k < values.numel(); ++k) {
      const double value = values.data_ptr<double>()[k] / loss_scale;
      ++layer.count;
      if (!std::isfinite(value)) {
        ++layer.nonfinite;
        continue;
      }
      layer.sum += value;
      layer.sum_of_squares += value * value;
      layer.absolute_maximum =
          std::max(layer.absolute_maximum, static_cast<float>(std::abs(value)));
    }
  }
  return layers;
}

/// The sum may cancel, so its error is measured against the sum of magnitudes.
inline void expect_moments(const std::vector<LayerMoments>& found,
                           const std::vector<LayerMoments>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const LayerMoments& e = expected[i];
    EXPECT_EQ(found[i].count, e.count) << "layer " << i;
    EXPECT_EQ(found[i].nonfinite, e.nonfinite) << "layer " << i;
    EXPECT_EQ(found[i].absolute_maximum, e.absolute_maximum) << "layer " << i;
    const double scale = std::sqrt(e.sum_of_squares * static_cast<double>(e.count));
    EXPECT_NEAR(found[i].sum, e.sum, 1e-6 * scale) << "layer " << i;
    EXPECT_NEAR(found[i].sum_of_squares, e.sum_of_squares, 1e-6 * e.sum_of_squares)
        << "layer " << i;
  }
}

/// Sizes of every kind, in one type, with an infinity and a NaN in the first and third layer.
inline TensorBunch gradients_of(at::ScalarType type) {
  TensorBunch bunch(awkward_sizes());
  for (at::Tensor& gradient : bunch.gradients) gradient = gradient.to(type);
  bunch.gradients[3][7918] = std::numeric_limits<double>::infinity();
  bunch.gradients[9][4096] = -std::numeric_limits<double>::infinity();
  bunch.gradients[5][0] = std::numeric_limits<double>::quiet_NaN();
  return bunch;
}

}  // namespace triaccel::kernels
