#include "triaccel/kernels/update/gradient_moments.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cfloat>

#include "tests/kernels/update/moments_oracle.h"
#include "triaccel/kernels/update/gradient_moments_math.h"

namespace triaccel::kernels {
namespace {

std::vector<LayerMoments> measure(const TensorBunch& bunch, float loss_scale = 1,
                                  const LayerScale* scales = nullptr) {
  const std::vector<TensorEntry> tensors = bunch.entries();
  std::vector<ChunkMoments> chunks(static_cast<std::size_t>(chunk_count(tensors)));
  std::vector<LayerMoments> layers(3, LayerMoments{.count = 99});
  const MomentsScales against = {&loss_scale, scales};
  cpu::clear_moments(against, layers.data(), 3);
  cpu::add_gradient_moments(tensors, against, {.chunks = chunks.data()}, layers.data());
  return layers;
}

TEST(GradientMoments, MatchTheFp64OracleInEveryType) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    SCOPED_TRACE(c10::toString(type));
    const TensorBunch bunch = gradients_of(type);
    expect_moments(measure(bunch), moments_in_fp64(bunch, 1));
  }
}

TEST(GradientMoments, AreOfTheUnscaledGradient) {
  const TensorBunch bunch(awkward_sizes());
  expect_moments(measure(bunch, 1024), moments_in_fp64(bunch, 1024));
}

TEST(GradientMoments, TakeTheLayerScaleOutOfF16GradientsAlone) {
  const ThreeScales scales = {LayerScale{.scale = 1024}, {.scale = 0.125f}, {.scale = 0x1p20f}};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    SCOPED_TRACE(c10::toString(type));
    const TensorBunch bunch = gradients_of(type);
    expect_moments(measure(bunch, 4, scales.data()), moments_in_fp64(bunch, 4, scales));
  }
}

TEST(GradientMoments, CountWhatFp16WouldLose) {
  TensorBunch bunch({8});
  bunch.gradients[0] = at::tensor(
      {0.0f, 0x1p-35f, -0x1p-35f, 0x1.000002p-35f, 0x1.fffp-25f, 0x1p-24f, 0x1p-149f, 1.0f});
  const ThreeScales scales = {LayerScale{.scale = 1024}};
  const LayerMoments layer = measure(bunch, 1, scales.data())[0];
  EXPECT_EQ(layer.fp16_zeros, 3) << "2^-25 after scaling ties to zero";
  EXPECT_EQ(layer.fp16_subnormals, 2);
  EXPECT_EQ(layer.fp16_scale, 1024.0f);
}

TEST(GradientMoments, OfALaneAreThoseOfItsElementsWhateverTheyAre) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const GradientScales scales = {.unscale = 4};
  for (const float odd :
       {0.5f, 0.0f, 0x1p-149f, 0x1p-20f, infinity, -infinity, std::nanf(""), FLT_MAX, -FLT_MAX}) {
    SCOPED_TRACE(odd);
    const auto element = [&](int i) { return i % 5 == 3 ? odd : static_cast<float>(i) - 4.5f; };
    LaneMoments each;
    for (int i = 0; i < kElementsPerLane; ++i)
      add_element(element(i), scales, each.sum, each.sum_of_squares, each.absolute_maximum,
                  each.nonfinite, each.fp16_zeros, each.fp16_subnormals);
    const LaneMoments lane = lane_moments(element, element, scales);
    EXPECT_EQ(lane.sum, each.sum);
    EXPECT_EQ(lane.sum_of_squares, each.sum_of_squares);
    EXPECT_EQ(lane.absolute_maximum, each.absolute_maximum);
    EXPECT_EQ(lane.fp16_zeros, each.fp16_zeros);
    EXPECT_EQ(lane.fp16_subnormals, each.fp16_subnormals);
    EXPECT_EQ(lane.nonfinite, std::isfinite(odd) ? 0 : 3);
  }
}

TEST(GradientMoments, AreExactOnAHandComputedCase) {
  TensorBunch bunch({3});
  bunch.gradients[0] = at::tensor({1.0f, -4.0f, 2.0f});
  const std::vector<LayerMoments> layers = measure(bunch, 2);
  EXPECT_EQ(layers[0].count, 3);
  EXPECT_EQ(layers[0].sum, -0.5);
  EXPECT_EQ(layers[0].sum_of_squares, 5.25);
  EXPECT_EQ(layers[0].absolute_maximum, 2.0f);
  EXPECT_EQ(layers[1].count, 0) << "a layer without a tensor is zeroed";
}

TEST(GradientMoments, GatheredInPiecesAreTheSameBits) {
  const TensorBunch bunch(awkward_sizes());
  const std::vector<TensorEntry> tensors = bunch.entries();
  std::vector<ChunkMoments> chunks(static_cast<std::size_t>(chunk_count(tensors)));
  std::vector<LayerMoments> layers(3);
  const float loss_scale = 1;
  cpu::clear_moments({&loss_scale}, layers.data(), 3);
  for (const TensorEntry& tensor : tensors)
    cpu::add_gradient_moments({&tensor, 1}, {&loss_scale}, {.chunks = chunks.data()},
                              layers.data());
  EXPECT_EQ(std::memcmp(layers.data(), measure(bunch).data(), 3 * sizeof(LayerMoments)), 0);
}

TEST(GradientMoments, AreTheSameBitsForAnyNumberOfThreads) {
  const TensorBunch bunch(awkward_sizes());
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const std::vector<LayerMoments> alone = measure(bunch);
  omp_set_num_threads(3);
  const std::vector<LayerMoments> shared = measure(bunch);
  omp_set_num_threads(threads);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(alone[i].sum, shared[i].sum);
    EXPECT_EQ(alone[i].sum_of_squares, shared[i].sum_of_squares);
  }
}

}  // namespace
}  // namespace triaccel::kernels
