#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/update/quantized_bunch.h"

namespace triaccel::kernels {
namespace {

class QuantizedUpdateOnCuda : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped()) device_rates_ = host_rates_.to(device_);
  }

  /// Several updates of both kinds, by `host_inputs` here and the same there, end in equal bits.
  void expect_equal_bits(const TensorBunch& plain, const UpdateInputs& host_inputs,
                         const UpdateInputs& device_inputs) {
    for (const bool adam : {false, true}) {
      SCOPED_TRACE(adam ? "AdamW" : "SGD");
      const CodedBunch host(plain);
      const CodedBunch device = host.on(device_);
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        if (adam) {
          const AdamWStep step = {.weight_decay = 0.05f};
          cpu::quantized_adamw_update(host.entries(), host_inputs, step, host.noise(seed));
          cuda::quantized_adamw_update(device.entries(), device_inputs, step, device.noise(seed),
                                       stream());
        } else {
          const SgdStep step = {.weight_decay = 1e-3f, .nesterov = seed == 2};
          cpu::quantized_sgd_update(host.entries(), host_inputs, step, host.noise(seed));
          cuda::quantized_sgd_update(device.entries(), device_inputs, step, device.noise(seed),
                                     stream());
        }
      }
      EXPECT_TRUE(device.same_bits_as(host));
    }
  }

  const at::Tensor host_rates_ = at::tensor({0.1f, 0.01f, 0.5f});
  at::Tensor device_rates_;
  const StepControl control_ = {.gradient_multiplier = 0.25f, .applied_steps = 3};

  float* host_rates() { return host_rates_.data_ptr<float>(); }
  float* device_rates() { return device_rates_.data_ptr<float>(); }
};

TEST_F(QuantizedUpdateOnCuda, GivesTheBitsOfTheCpuForGradientsOfEveryType) {
  const std::array<LayerScale, 3> scales = {LayerScale{.scale = 1024}, {.scale = 0.25f}, {}};
  const at::Tensor control = on_device(control_, device_), there = on_device(scales, device_);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    SCOPED_TRACE(c10::toString(type));
    TensorBunch plain(awkward_sizes());
    for (at::Tensor& gradient : plain.gradients) gradient = gradient.to(type);
    expect_equal_bits(
        plain, {.learning_rates = host_rates(), .control = &control_, .scales = scales.data()},
        {.learning_rates = device_rates(),
         .control = pointer<StepControl>(control),
         .scales = pointer<LayerScale>(there)});
  }
}

TEST_F(QuantizedUpdateOnCuda, GivesTheBitsOfTheCpuForValuesOfAllSizes) {
  TensorBunch plain({100000});
  for (at::Tensor* values : {&plain.gradients[0], &plain.states1[0], &plain.states2[0]})
    *values = *values * at::exp2(at::randint(-60, 30, values->sizes(), at::kFloat));
  const at::Tensor control = on_device(control_, device_);
  expect_equal_bits(plain, {.learning_rates = host_rates(), .control = &control_},
                    {.learning_rates = device_rates(), .control = pointer<StepControl>(control)});
}

TEST_F(QuantizedUpdateOnCuda, ReachesParametersThatAreNotAlignedForVectors) {
  const CodedBunch host{TensorBunch({9998})};
  CodedBunch device = host.on(device_);
  at::Tensor& parameter = device.plain.parameters[0];
  const at::Tensor room = at::empty({10000}, parameter.options());
  parameter = room.narrow(0, 1, 9998).copy_(parameter);
  const at::Tensor control = on_device(control_, device_);
  cpu::quantized_sgd_update(host.entries(), {.learning_rates = host_rates(), .control = &control_},
                            {}, host.noise());
  cuda::quantized_sgd_update(
      device.entries(),
      {.learning_rates = device_rates(), .control = pointer<StepControl>(control)}, {},
      device.noise(), stream());
  EXPECT_TRUE(device.same_bits_as(host));
}

TEST_F(QuantizedUpdateOnCuda, TheGateOfALayerGivesTheBitsOfTheCpu) {
  const std::array<LayerMoments, 3> moments = {LayerMoments{}, {.nonfinite = 1}, {}};
  const StepControl last = {.loss_scale = 4, .skip = 1, .applied_steps = 2};
  const at::Tensor there = on_device(moments, device_), control = on_device(last, device_);
  expect_equal_bits(TensorBunch(awkward_sizes()),
                    {.learning_rates = host_rates(),
                     .control = &last,
                     .moments = moments.data(),
                     .gate = UpdateGate::Layer},
                    {.learning_rates = device_rates(),
                     .control = pointer<StepControl>(control),
                     .moments = pointer<LayerMoments>(there),
                     .gate = UpdateGate::Layer});
}

TEST_F(QuantizedUpdateOnCuda, ASkippedStepChangesNoBit) {
  const CodedBunch host{TensorBunch(awkward_sizes())};
  const CodedBunch device = host.on(device_);
  const StepControl skipped = {.gradient_multiplier = 0, .skip = 1, .applied_steps = 3};
  const at::Tensor control = on_device(skipped, device_);
  const UpdateInputs inputs = {.learning_rates = device_rates(),
                               .control = pointer<StepControl>(control)};
  cuda::quantized_sgd_update(device.entries(), inputs, {}, device.noise(), stream());
  cuda::quantized_adamw_update(device.entries(), inputs, {}, device.noise(), stream());
  EXPECT_TRUE(device.same_bits_as(host));
}

}  // namespace
}  // namespace triaccel::kernels
