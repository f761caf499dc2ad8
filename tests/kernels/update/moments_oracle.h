#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/common/tensor_bunch.h"
#include "triaccel/kernels/precision/layer_scale.h"

namespace triaccel::kernels {

using ThreeScales = std::array<LayerScale, 3>;
inline constexpr ThreeScales kUnscaled = {};

/// Layer moments in FP64, one element after the other.
inline std::vector<LayerMoments> moments_in_fp64(const TensorBunch& bunch, double loss_scale,
                                                 const ThreeScales& scales = kUnscaled) {
  std::vector<LayerMoments> layers(3);
  for (std::size_t i = 0; i < 3; ++i)
    layers[i].fp16_scale = static_cast<float>(loss_scale) * scales[i].scale;
  for (std::size_t i = 0; i < bunch.gradients.size(); ++i) {
    LayerMoments& layer = layers[i % 3];
    const bool is_f16 = bunch.gradients[i].scalar_type() == at::kHalf;
    const double carried = loss_scale * (is_f16 ? double{scales[i % 3].scale} : 1.0);
    const at::Tensor values = bunch.gradients[i].cpu().to(at::kDouble);
    for (std::int64_t k = 0; k < values.numel(); ++k) {
      const double value = values.data_ptr<double>()[k] / carried;
      const double in_fp16 = std::abs(value) * double{layer.fp16_scale};
      ++layer.count;
      if (in_fp16 > 0 && in_fp16 <= std::ldexp(1.0, -25)) ++layer.fp16_zeros;
      if (in_fp16 > std::ldexp(1.0, -25) && in_fp16 < std::ldexp(1.0, -14)) ++layer.fp16_subnormals;
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
    EXPECT_EQ(found[i].fp16_zeros, e.fp16_zeros) << "layer " << i;
    EXPECT_EQ(found[i].fp16_subnormals, e.fp16_subnormals) << "layer " << i;
    EXPECT_EQ(found[i].fp16_scale, e.fp16_scale) << "layer " << i;
    EXPECT_EQ(found[i].absolute_maximum, e.absolute_maximum) << "layer " << i;
    const double scale = std::sqrt(e.sum_of_squares * static_cast<double>(e.count));
    EXPECT_NEAR(found[i].sum, e.sum, 1e-6 * scale) << "layer " << i;
    EXPECT_NEAR(found[i].sum_of_squares, e.sum_of_squares, 1e-6 * e.sum_of_squares)
        << "layer " << i;
  }
}

/// Sizes of every kind, in one type, with an infinity and a NaN in the first and third layer and
/// enough tiny elements for FP16 to lose.
inline TensorBunch gradients_of(at::ScalarType type) {
  TensorBunch bunch(awkward_sizes());
  for (at::Tensor& gradient : bunch.gradients)
    gradient = (gradient * at::exp2(at::randint_like(gradient, -30, 1))).to(type);
  bunch.gradients[3][7918] = std::numeric_limits<double>::infinity();
  bunch.gradients[9][4096] = -std::numeric_limits<double>::infinity();
  bunch.gradients[5][0] = std::numeric_limits<double>::quiet_NaN();
  return bunch;
}

}  // namespace triaccel::kernels
