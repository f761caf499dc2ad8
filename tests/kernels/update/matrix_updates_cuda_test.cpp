#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/update/matrix_bunch.h"
#include "triaccel/kernels/update/adalomo.h"
#include "triaccel/kernels/update/apollo_mini.h"

namespace triaccel::kernels {
namespace {

// Sums of up to 300,000 numbers in FP32, by tiles that both sides add in different order.
constexpr double kSumTolerance = 2e-5;

struct OnAdaLomo {
  static constexpr bool kVectors = true;
  static constexpr auto kStateSize = adalomo_state_size;
  static constexpr auto kWorkspaceSize = adalomo_workspace_size;
  static constexpr auto kCpu = cpu::adalomo_update;
  static constexpr auto kCuda = cuda::adalomo_update;
  static AdaLomoStep step() { return {.weight_decay = 0.05f}; }
};

struct OnApolloMini {
  static constexpr bool kVectors = false;
  static constexpr auto kStateSize = apollo_mini_state_size;
  static constexpr auto kWorkspaceSize = apollo_mini_workspace_size;
  static constexpr auto kCpu = cpu::apollo_mini_update;
  static constexpr auto kCuda = cuda::apollo_mini_update;
  static ApolloMiniStep step() {
    return {.adamw = {.weight_decay = 0.05f}, .projection_interval = 2};
  }
};

template <typename Rule>
class MatrixUpdatesOnCuda : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped()) device_rates_ = host_rates_.to(device_);
  }
  const at::Tensor host_rates_ = at::tensor({0.1f, 0.01f, 0.05f});
  at::Tensor device_rates_;

  static MatrixBunch bunch() {
    return MatrixBunch(awkward_shapes(Rule::kVectors), Rule::kStateSize, Rule::kWorkspaceSize);
  }
  UpdateInputs host_inputs(const StepControl& control) const {
    return {.learning_rates = host_rates_.data_ptr<float>(), .control = &control};
  }
  UpdateInputs device_inputs(const at::Tensor& control) const {
    return {.learning_rates = device_rates_.data_ptr<float>(),
            .control = pointer<StepControl>(control)};
  }
  void update(const MatrixBunch& matrices, const UpdateInputs& inputs) const {
    Rule::kCuda(matrices.entries(), inputs, Rule::step(), stream());
  }
  static void expect_near(const MatrixBunch& found, const MatrixBunch& expected) {
    EXPECT_LE(largest_difference(found.tensors.parameters, expected.tensors.parameters),
              kSumTolerance);
    EXPECT_LE(largest_difference(found.tensors.states1, expected.tensors.states1), kSumTolerance);
  }
};

using MatrixRules = testing::Types<OnAdaLomo, OnApolloMini>;
TYPED_TEST_SUITE(MatrixUpdatesOnCuda, MatrixRules);

TYPED_TEST(MatrixUpdatesOnCuda, MatchTheCpuForGradientsOfEveryType) {
  const std::array<LayerScale, 3> scales = {LayerScale{.scale = 1024}, {.scale = 0.25f}, {}};
  const at::Tensor device_scales = on_device(scales, this->device_);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    SCOPED_TRACE(c10::toString(type));
    MatrixBunch host = this->bunch();
    MatrixBunch device = host.on(this->device_);
    for (int t = 1; t <= 3; ++t) {
      host.draw_gradients(t, type);
      for (std::size_t i = 0; i < host.rows.size(); ++i)
        device.tensors.gradients[i] = host.tensors.gradients[i].to(this->device_);
      const StepControl control = {.gradient_multiplier = 0.25f, .applied_steps = t};
      const at::Tensor device_control = on_device(control, this->device_);
      UpdateInputs here = this->host_inputs(control), there = this->device_inputs(device_control);
      here.scales = scales.data();
      there.scales = pointer<LayerScale>(device_scales);
      TypeParam::kCpu(host.entries(), here, TypeParam::step());
      this->update(device, there);
      this->expect_near(device, host);
    }
  }
}

TYPED_TEST(MatrixUpdatesOnCuda, RepeatBitForBit) {
  const MatrixBunch first = this->bunch().on(this->device_), second = first.on(this->device_);
  for (int t = 1; t <= 2; ++t) {  // the workspace is ready for the next step
    const at::Tensor control = on_device(StepControl{.applied_steps = t}, this->device_);
    this->update(first, this->device_inputs(control));
    this->update(second, this->device_inputs(control));
  }
  EXPECT_TRUE(first.same_weights_and_states(second));
}

TYPED_TEST(MatrixUpdatesOnCuda, TheGateOfALayerMatchesTheCpu) {
  const std::array<LayerMoments, 3> moments = {LayerMoments{}, {.nonfinite = 1}, {}};
  const StepControl last = {.loss_scale = 4, .skip = 1, .applied_steps = 2};
  const MatrixBunch before = this->bunch();
  const MatrixBunch host = before.on(at::kCPU), device = before.on(this->device_);
  const at::Tensor device_moments = on_device(moments, this->device_);
  const at::Tensor control = on_device(last, this->device_);
  UpdateInputs here = this->host_inputs(last), there = this->device_inputs(control);
  here.gate = there.gate = UpdateGate::Layer;
  here.moments = moments.data();
  there.moments = pointer<LayerMoments>(device_moments);
  TypeParam::kCpu(host.entries(), here, TypeParam::step());
  this->update(device, there);
  this->expect_near(device, host);
  for (std::size_t i = 1; i < before.rows.size(); i += 3)
    EXPECT_TRUE(same_bits(device.tensors.parameters[i], before.tensors.parameters[i])) << i;
}

TYPED_TEST(MatrixUpdatesOnCuda, ASkippedStepChangesNoBit) {
  const MatrixBunch host = this->bunch(), device = host.on(this->device_);
  const at::Tensor control = on_device(
      StepControl{.gradient_multiplier = 0, .skip = 1, .applied_steps = 3}, this->device_);
  this->update(device, this->device_inputs(control));
  EXPECT_TRUE(device.same_weights_and_states(host));
}

}  // namespace
}  // namespace triaccel::kernels
