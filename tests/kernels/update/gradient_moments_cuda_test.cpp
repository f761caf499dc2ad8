#include "triaccel/kernels/update/gradient_moments.h"

#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/update/moments_oracle.h"
#include "triaccel/kernels/update/gradient_moments_list.h"
#include "triaccel/kernels/update/step_control.h"

namespace triaccel::kernels {
namespace {

class MomentsOnCuda : public CudaTest {
 protected:
  /// In as many calls as it takes with `segment` tensors each; 0: all at once.
  std::vector<LayerMoments> measure(const TensorBunch& bunch, float loss_scale,
                                    const ThreeScales& layer_scales = kUnscaled,
                                    std::size_t segment = 0) {
    const std::vector<TensorEntry> tensors = bunch.entries();
    const auto bytes = at::TensorOptions().dtype(at::kByte).device(device_);
    const at::Tensor scale = on_device(loss_scale, device_);
    const at::Tensor scales = on_device(layer_scales, device_);
    const at::Tensor chunks =
        at::empty({chunk_count(tensors) * std::int64_t{sizeof(ChunkMoments)}}, bytes);
    const at::Tensor layers = at::full({3 * std::int64_t{sizeof(LayerMoments)}}, 0xff, bytes);
    const at::Tensor tickets = at::zeros({3 * std::int64_t{sizeof(std::uint32_t)}}, bytes);
    const MomentsScales against = {pointer<float>(scale), pointer<LayerScale>(scales)};
    const MomentsScratch scratch = {pointer<ChunkMoments>(chunks), pointer<std::uint32_t>(tickets)};
    auto* moments = pointer<LayerMoments>(layers);
    cuda::clear_moments(against, moments, 3, stream());
    std::span<const TensorEntry> rest = tensors;
    while (!rest.empty()) {
      const std::size_t count = segment == 0 ? rest.size() : std::min(segment, rest.size());
      cuda::add_gradient_moments(rest.first(count), against, scratch, moments, stream());
      rest = rest.subspan(count);
    }
    EXPECT_EQ(tickets.sum().item<std::int64_t>(), 0);
    const auto read = from_device<std::array<LayerMoments, 3>>(layers);
    return {read.begin(), read.end()};
  }
};

TEST_F(MomentsOnCuda, MatchTheFp64OracleInEveryType) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    SCOPED_TRACE(c10::toString(type));
    const TensorBunch host = gradients_of(type);
    expect_moments(measure(host.on(device_), 1024), moments_in_fp64(host, 1024));
  }
}

TEST_F(MomentsOnCuda, GatheredInPiecesAreTheSameSums) {
  const TensorBunch device = TensorBunch(awkward_sizes()).on(device_);
  const auto one_by_one = measure(device, 1, kUnscaled, 1);
  const auto again = measure(device, 1, kUnscaled, 1);
  EXPECT_EQ(std::memcmp(one_by_one.data(), again.data(), 3 * sizeof(LayerMoments)), 0);
  for (const std::size_t segment : {0, 3, 50}) {
    const auto segments = measure(device, 1, kUnscaled, segment);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(segments[i].count, one_by_one[i].count);
      EXPECT_EQ(segments[i].absolute_maximum, one_by_one[i].absolute_maximum);
      EXPECT_NEAR(segments[i].sum_of_squares, one_by_one[i].sum_of_squares,
                  1e-12 * one_by_one[i].sum_of_squares);
      EXPECT_NEAR(segments[i].sum, one_by_one[i].sum, 1e-12 * one_by_one[i].sum_of_squares);
    }
  }
}

TEST_F(MomentsOnCuda, TakeTheLayerScaleOutOfF16GradientsAlone) {
  const ThreeScales scales = {LayerScale{.scale = 1024}, {.scale = 0.125f}, {.scale = 0x1p20f}};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    SCOPED_TRACE(c10::toString(type));
    const TensorBunch host = gradients_of(type);
    expect_moments(measure(host.on(device_), 4, scales), moments_in_fp64(host, 4, scales));
  }
}

TEST_F(MomentsOnCuda, AreTheSameBitsWhereverATensorLies) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const std::int64_t size : {5, 1000, 4104, 50'003})
      for (std::int64_t offset = 1; offset < 8; ++offset) {
        SCOPED_TRACE(testing::Message() << c10::toString(type) << size << " at " << offset);
        TensorBunch host({size});
        host.gradients[0] = host.gradients[0].to(type);
        const TensorBunch aligned = host.on(device_);
        TensorBunch shifted = aligned;
        shifted.gradients[0] =
            at::cat({at::ones({offset}, aligned.gradients[0].options()), aligned.gradients[0]})
                .narrow(0, offset, size);
        const auto expected = measure(aligned, 1);
        expect_moments(expected, moments_in_fp64(host, 1));
        EXPECT_EQ(std::memcmp(measure(shifted, 1).data(), expected.data(),
                              expected.size() * sizeof(LayerMoments)),
                  0);
      }
}

TEST_F(MomentsOnCuda, TakeTensorsOfManyBlocksAndTypes) {
  std::vector<std::int64_t> sizes = {100 * kMomentsSegment, kMomentsSegment - 8,
                                     kMomentsSegment + 1, 3 * kMomentsSegment + 4100, 12};
  for (std::int64_t i = 0; i < 2 * MomentsList::kCapacity; ++i) sizes.push_back(8 * i + i % 3);
  TensorBunch host(sizes);
  constexpr std::array types = {at::kFloat, at::kBFloat16, at::kHalf, at::kBFloat16};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    host.gradients[i] = host.gradients[i].to(types[i % types.size()]);
  const ThreeScales scales = {LayerScale{.scale = 64}, {.scale = 1}, {.scale = 0x1p-3f}};
  expect_moments(measure(host.on(device_), 8, scales), moments_in_fp64(host, 8, scales));
}

TEST_F(MomentsOnCuda, CountElementsThatAreNotFinite) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const double odd : {std::numeric_limits<double>::infinity(), std::nan("")}) {
      SCOPED_TRACE(testing::Message() << c10::toString(type) << odd);
      TensorBunch host({3 * kMomentsSegment + 5, 700, 4096});
      for (at::Tensor& gradient : host.gradients) gradient = gradient.to(type);
      host.gradients[0].slice(0, 0, {}, 97).fill_(odd);
      host.gradients[1].fill_(odd);
      host.gradients[2][4095] = -odd;
      expect_moments(measure(host.on(device_), 1), moments_in_fp64(host, 1));
    }
}

TEST_F(MomentsOnCuda, LayerScalesMoveAsOnTheCpu) {
  std::vector<LayerScale> scales(300);
  std::vector<LayerMoments> moments(300);
  for (std::size_t i = 0; i < scales.size(); ++i) {
    scales[i].scale = std::ldexp(1.0f, static_cast<int>(i % 65) - 24);
    scales[i].recent_maximum = i % 3 == 0 ? 0 : std::ldexp(1.3f, static_cast<int>(i) - 150);
    scales[i].output_maximum = i % 5 == 0 ? 0 : std::ldexp(1.9f, 150 - static_cast<int>(i));
    moments[i] = {.nonfinite = i % 7 == 0, .absolute_maximum = static_cast<float>(i)};
  }
  const auto bytes_of = [&](const auto& vector) {
    const auto size = static_cast<std::int64_t>(vector.size() * sizeof vector[0]);
    return at::from_blob(const_cast<void*>(static_cast<const void*>(vector.data())), {size},
                         at::kByte);
  };
  const at::Tensor device_scales = bytes_of(scales).to(device_);
  const at::Tensor device_moments = bytes_of(moments).to(device_);
  cpu::update_layer_scales(scales.data(), moments.data(), 300);
  cuda::update_layer_scales(pointer<LayerScale>(device_scales),
                            pointer<LayerMoments>(device_moments), 300, stream());
  EXPECT_TRUE(same_bits(device_scales, bytes_of(scales)));
}

TEST_F(MomentsOnCuda, ZeroTheLayersWithoutGradients) {
  expect_moments(measure(TensorBunch({}), 1), std::vector<LayerMoments>(3));
}

TEST_F(MomentsOnCuda, AreTheSameBitsEveryTime) {
  const TensorBunch device = TensorBunch(awkward_sizes()).on(device_);
  const std::vector<LayerMoments> first = measure(device, 1);
  for (int i = 0; i < 20; ++i) {
    const std::vector<LayerMoments> again = measure(device, 1);
    EXPECT_EQ(std::memcmp(first.data(), again.data(), 3 * sizeof(LayerMoments)), 0);
  }
}

TEST_F(MomentsOnCuda, StepControlDecidesAsOnTheCpu) {
  const StepControlOptions options = {
      .max_norm = 1, .dynamic_loss_scale = true, .growth_interval = 2};
  StepControl host = {.loss_scale = 1024};
  const at::Tensor device = on_device(host, device_);
  for (const std::int64_t nonfinite : {0, 0, 1, 0, 0, 0, 2}) {
    const std::array<LayerMoments, 2> layers = {
        LayerMoments{.count = 5, .sum_of_squares = 7.5},
        LayerMoments{.count = 3, .sum_of_squares = 0.25, .nonfinite = nonfinite}};
    cpu::decide_step(&host, layers.data(), 2, options);
    const at::Tensor moments = on_device(layers, device_);
    cuda::decide_step(pointer<StepControl>(device), pointer<LayerMoments>(moments), 2, options,
                      stream());
    const auto found = from_device<StepControl>(device);
    EXPECT_FLOAT_EQ(found.gradient_multiplier, host.gradient_multiplier);
    EXPECT_EQ(found.loss_scale, host.loss_scale);
    EXPECT_EQ(found.skip, host.skip);
    EXPECT_EQ(found.clean_steps, host.clean_steps);
    EXPECT_EQ(found.applied_steps, host.applied_steps);
    EXPECT_EQ(found.skipped_steps, host.skipped_steps);
    EXPECT_EQ(found.first_skipped_step, host.first_skipped_step);
    EXPECT_EQ(found.first_skipped_layer, host.first_skipped_layer);
  }
}

}  // namespace
}  // namespace triaccel::kernels
