#include "triaccel/kernels/gradient_moments.h"

#include "tests/kernels/cuda_fixture.h"
#include "tests/kernels/moments_oracle.h"
#include "triaccel/kernels/step_control.h"

namespace triaccel::kernels {
namespace {

class MomentsOnCuda : public CudaTest {
 protected:
  std::vector<LayerMoments> measure(const TensorBunch& bunch, float loss_scale) {
    const std::vector<TensorEntry> tensors = bunch.entries();
    const auto bytes = at::TensorOptions().dtype(at::kByte).device(device_);
    const at::Tensor scale = on_device(loss_scale, device_);
    const at::Tensor chunks =
        at::empty({chunk_count(tensors) * std::int64_t{sizeof(ChunkMoments)}}, bytes);
    const at::Tensor layers = at::full({3 * std::int64_t{sizeof(LayerMoments)}}, 0xff, bytes);
    cuda::gradient_moments(tensors, pointer<float>(scale), pointer<ChunkMoments>(chunks),
                           pointer<LayerMoments>(layers), 3, stream());
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
  }
}

}  // namespace
}  // namespace triaccel::kernels
