#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/common/tensor_bunch.h"
#include "tests/support/tolerance.h"
#include "triaccel/kernels/update/adamw.h"
#include "triaccel/kernels/update/restore_if_skipped.h"
#include "triaccel/kernels/update/sgd.h"
#include "triaccel/kernels/update/weight_average.h"

namespace triaccel::kernels {
namespace {

const double kTolerance = tolerance_for(Precision::Fp32);

class UpdatesOnCuda : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped()) device_rates_ = host_rates_.to(device_);
  }
  const at::Tensor host_rates_ = at::tensor({0.1f, 0.01f, 0.5f});
  at::Tensor device_rates_;
  const StepControl control_ = {.gradient_multiplier = 0.25f, .applied_steps = 3};
  const StepControl skipped_ = {.gradient_multiplier = 0, .skip = 1, .applied_steps = 3};

  float* host_rates() { return host_rates_.data_ptr<float>(); }
  float* device_rates() { return device_rates_.data_ptr<float>(); }
};

TEST_F(UpdatesOnCuda, SgdMatchesTheCpu) {
  for (const bool nesterov : {false, true}) {
    const SgdStep step = {.momentum = 0.9f, .weight_decay = 1e-3f, .nesterov = nesterov};
    const TensorBunch host(awkward_sizes());
    const TensorBunch device = host.on(device_);
    const at::Tensor control = on_device(control_, device_);
    cpu::sgd_update(host.entries(), {.learning_rates = host_rates(), .control = &control_}, step);
    cuda::sgd_update(device.entries(),
                     {.learning_rates = device_rates(), .control = pointer<StepControl>(control)},
                     step, stream());
    EXPECT_LE(largest_difference(device.parameters, host.parameters), kTolerance);
    EXPECT_LE(largest_difference(device.states1, host.states1), kTolerance);
  }
}

TEST_F(UpdatesOnCuda, SgdReachesTensorsThatAreNotAlignedForVectors) {
  TensorBunch host({10000});
  TensorBunch device = host.on(device_);
  for (TensorBunch* bunch : {&host, &device}) {
    bunch->parameters[0] = bunch->parameters[0].narrow(0, 1, 9998);
    bunch->gradients[0] = bunch->gradients[0].narrow(0, 2, 9998);
    bunch->states1[0] = bunch->states1[0].narrow(0, 0, 9998);
  }
  const at::Tensor control = on_device(control_, device_);
  cpu::sgd_update(host.entries(), {.learning_rates = host_rates(), .control = &control_}, {});
  cuda::sgd_update(device.entries(),
                   {.learning_rates = device_rates(), .control = pointer<StepControl>(control)}, {},
                   stream());
  EXPECT_LE(largest_difference(device.parameters, host.parameters), kTolerance);
}

TEST_F(UpdatesOnCuda, AdamWMatchesTheCpu) {
  const AdamWStep step = {.weight_decay = 0.05f};
  const TensorBunch host(awkward_sizes());
  const TensorBunch device = host.on(device_);
  const at::Tensor control = on_device(control_, device_);
  cpu::adamw_update(host.entries(), {.learning_rates = host_rates(), .control = &control_}, step);
  cuda::adamw_update(device.entries(),
                     {.learning_rates = device_rates(), .control = pointer<StepControl>(control)},
                     step, stream());
  EXPECT_LE(largest_difference(device.parameters, host.parameters), kTolerance);
  EXPECT_LE(largest_difference(device.states1, host.states1), kTolerance);
  EXPECT_LE(largest_difference(device.states2, host.states2), kTolerance);
}

TEST_F(UpdatesOnCuda, HalfGradientsMatchTheCpuUnderLayerScales) {
  const std::array<LayerScale, 3> scales = {LayerScale{.scale = 1024}, {.scale = 0.25f}, {}};
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    SCOPED_TRACE(c10::toString(type));
    TensorBunch host(awkward_sizes());
    for (at::Tensor& gradient : host.gradients) gradient = gradient.to(type);
    const TensorBunch device = host.on(device_);
    const at::Tensor control = on_device(control_, device_);
    const at::Tensor device_scales = on_device(scales, device_);
    const auto* on_scales = pointer<LayerScale>(device_scales);
    const auto* on_control = pointer<StepControl>(control);
    cpu::sgd_update(host.entries(),
                    {.learning_rates = host_rates(), .control = &control_, .scales = scales.data()},
                    {});
    cuda::sgd_update(device.entries(),
                     {.learning_rates = device_rates(), .control = on_control, .scales = on_scales},
                     {}, stream());
    cpu::adamw_update(
        host.entries(),
        {.learning_rates = host_rates(), .control = &control_, .scales = scales.data()}, {});
    cuda::adamw_update(
        device.entries(),
        {.learning_rates = device_rates(), .control = on_control, .scales = on_scales}, {},
        stream());
    EXPECT_LE(largest_difference(device.parameters, host.parameters), kTolerance);
    EXPECT_LE(largest_difference(device.states1, host.states1), kTolerance);
    EXPECT_LE(largest_difference(device.states2, host.states2), kTolerance);
  }
}

TEST_F(UpdatesOnCuda, TheGateOfALayerMatchesTheCpu) {
  const std::array<LayerMoments, 3> moments = {LayerMoments{}, {.nonfinite = 1}, {}};
  const StepControl last = {.loss_scale = 4, .skip = 1, .applied_steps = 2};
  const TensorBunch before(awkward_sizes());
  const TensorBunch host = before.on(at::kCPU), device = before.on(device_);
  const at::Tensor device_moments = on_device(moments, device_), control = on_device(last, device_);
  const UpdateInputs on_host = {.learning_rates = host_rates(),
                                .control = &last,
                                .moments = moments.data(),
                                .gate = UpdateGate::Layer};
  const UpdateInputs there = {.learning_rates = device_rates(),
                              .control = pointer<StepControl>(control),
                              .moments = pointer<LayerMoments>(device_moments),
                              .gate = UpdateGate::Layer};
  cpu::sgd_update(host.entries(), on_host, {});
  cpu::adamw_update(host.entries(), on_host, {});
  cuda::sgd_update(device.entries(), there, {}, stream());
  cuda::adamw_update(device.entries(), there, {}, stream());
  EXPECT_LE(largest_difference(device.parameters, host.parameters), kTolerance);
  EXPECT_LE(largest_difference(device.states1, host.states1), kTolerance);
  for (std::size_t i = 1; i < before.parameters.size(); i += 3)
    EXPECT_TRUE(same_bits(device.parameters[i], before.parameters[i])) << "tensor " << i;
}

TEST_F(UpdatesOnCuda, RestoreEveryBitOfASkippedStepAlone) {
  const TensorBunch host(awkward_sizes());
  const TensorBunch device = host.on(device_);
  const at::Tensor applied = on_device(control_, device_), skipped = on_device(skipped_, device_);
  cuda::restore_if_skipped(device.entries(), pointer<StepControl>(applied), stream());
  EXPECT_TRUE(same_bits(device.parameters, host.parameters));
  cuda::restore_if_skipped(device.entries(), pointer<StepControl>(skipped), stream());
  EXPECT_TRUE(same_bits(device.parameters, host.states1));
  EXPECT_TRUE(same_bits(device.states1, host.states1));
}

TEST_F(UpdatesOnCuda, SaveEveryBitToRestoreIt) {
  const TensorBunch host(awkward_sizes());
  const TensorBunch device = host.on(device_);
  cuda::save_to_restore(device.entries(), stream());
  EXPECT_TRUE(same_bits(device.parameters, host.parameters));
  EXPECT_TRUE(same_bits(device.states1, host.parameters));
  for (const at::Tensor& parameter : device.parameters) parameter.zero_();
  cuda::restore(device.entries(), stream());
  EXPECT_TRUE(same_bits(device.parameters, host.parameters));
}

TEST_F(UpdatesOnCuda, AveragesMatchTheCpu) {
  const TensorBunch host(awkward_sizes());
  const TensorBunch device = host.on(device_);
  const at::Tensor control = on_device(control_, device_);
  cpu::average_weights(host.entries(), &control_, {.decay = 0.9f});
  cuda::average_weights(device.entries(), pointer<StepControl>(control), {.decay = 0.9f}, stream());
  EXPECT_LE(largest_difference(device.states1, host.states1), kTolerance);
  EXPECT_TRUE(same_bits(device.parameters, host.parameters));
}

TEST_F(UpdatesOnCuda, SwapExchangesEveryBit) {
  const TensorBunch host(awkward_sizes());
  const TensorBunch device = host.on(device_);
  cuda::swap_weights(device.entries(), stream());
  EXPECT_TRUE(same_bits(device.parameters, host.states1));
  EXPECT_TRUE(same_bits(device.states1, host.parameters));
}

TEST_F(UpdatesOnCuda, ASkippedStepChangesNoBit) {
  const TensorBunch host(awkward_sizes());
  const TensorBunch device = host.on(device_);
  const at::Tensor control = on_device(skipped_, device_);
  const auto* skip = pointer<StepControl>(control);
  cuda::sgd_update(device.entries(), {.learning_rates = device_rates(), .control = skip}, {},
                   stream());
  cuda::adamw_update(device.entries(), {.learning_rates = device_rates(), .control = skip}, {},
                     stream());
  cuda::average_weights(device.entries(), skip, {}, stream());
  EXPECT_TRUE(same_bits(device.parameters, host.parameters));
  EXPECT_TRUE(same_bits(device.states1, host.states1));
  EXPECT_TRUE(same_bits(device.states2, host.states2));
}

}  // namespace
}  // namespace triaccel::kernels
