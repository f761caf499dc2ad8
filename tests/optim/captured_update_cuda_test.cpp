#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include "tests/optim/optimizer_case.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/optim/gradient_control.h"
#include "triaccel/optim/optimizer.h"
#include "triaccel/optim/weight_average.h"

namespace triaccel {
namespace {

class CapturedUpdate : public testing::TestWithParam<OptimizerOptions> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
  }
};

/// One side runs every step eagerly, the other replays one captured step; both get the same
/// gradients, the same changing learning rates and one overflow.
TEST_P(CapturedUpdate, ReplaysAsTheEagerStep) {
  const at::Device device(at::kCUDA, 0);
  OptimizerCase eager(device), captured(device);
  struct Side {
    Side(OptimizerCase& c, const OptimizerOptions& options)
        : control({.clip_norm = 1, .loss_scaling = true, .initial_loss_scale = 1024}, c.ours, 2),
          optimizer(make_optimizer(options, c.ours)),
          average({}, c.ours),
          test(c) {}
    void step() {
      control.measure();
      optimizer->update(control.update_inputs(test.learning_rates));
      average.update(control.step_control());
      control.finish_step();
    }
    GradientControl control;
    std::unique_ptr<Optimizer> optimizer;
    WeightAverage average;
    OptimizerCase& test;
  };
  Side a(eager, GetParam()), b(captured, GetParam());
  eager.draw_gradients();
  captured.draw_gradients();  // the addresses the graph will read

  at::cuda::CUDAGraph graph;
  {
    const c10::cuda::CUDAStreamGuard pool(c10::cuda::getStreamFromPool());
    graph.capture_begin();
    b.step();
    graph.capture_end();
  }
  for (int step = 0; step < 5; ++step) {
    eager.draw_gradients(1024);
    if (step == 2) eager.ours[0].tensor.mutable_grad().as_strided({1}, {1}).fill_(INFINITY);
    eager.learning_rates.fill_(0.1 / (step + 1));
    captured.learning_rates.copy_(eager.learning_rates);
    for (std::size_t i = 0; i < eager.ours.size(); ++i)
      captured.ours[i].tensor.mutable_grad().copy_(eager.ours[i].tensor.grad());
    a.step();
    synchronize(c10::Device(c10::kCUDA));
    graph.replay();
    synchronize(c10::Device(c10::kCUDA));
    EXPECT_TRUE(captured.equals(eager.copies())) << "after step " << step;
    EXPECT_TRUE(at::equal(b.control.layer_scales(), a.control.layer_scales()));
  }
  EXPECT_EQ(b.control.read().applied_steps, 4);
  EXPECT_EQ(b.control.read().skipped_steps, 1);
  EXPECT_EQ(b.control.read().loss_scale, 512);
}

/// The captured side applies its gradients in three pieces while the eager side takes them at once.
TEST_P(CapturedUpdate, ReplaysUpdatesDuringBackwardAsTheEagerStep) {
  const at::Device device(at::kCUDA, 0);
  OptimizerCase eager(device), captured(device);
  const GradientControlOptions options = {.loss_scaling = true, .initial_loss_scale = 1024};
  GradientControl control(options, eager.ours, 2), captured_control(options, captured.ours, 2);
  const auto optimizer = make_optimizer(GetParam(), eager.ours);
  const auto captured_optimizer = make_optimizer(GetParam(), captured.ours);
  captured.draw_gradients();
  std::vector<at::Tensor> gradients;  // at the addresses the graph will read
  for (const ParameterRef& parameter : captured.ours) gradients.push_back(parameter.tensor.grad());
  const auto allocations = [] {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocation[0].allocated;
  };
  at::cuda::CUDAGraph graph;
  {
    const c10::cuda::CUDAStreamGuard pool(c10::cuda::getStreamFromPool());
    graph.capture_begin();
    const std::int64_t before = allocations();
    captured_control.start_gathering();
    captured.release_gradients([&] {
      captured_control.gather();
      captured_optimizer->update(
          captured_control.update_inputs(captured.learning_rates, UpdateGate::Layer));
    });
    captured_control.decide();
    captured_control.finish_step();
    EXPECT_EQ(allocations(), before);
    graph.capture_end();
  }
  const auto replay_with = [&] {
    for (std::size_t i = 0; i < gradients.size(); ++i)
      gradients[i].copy_(eager.ours[i].tensor.grad());
    synchronize(c10::Device(c10::kCUDA));
    graph.replay();
    synchronize(c10::Device(c10::kCUDA));
  };
  for (int step = 0; step < 4; ++step) {
    eager.draw_gradients(1024);
    control.measure();
    optimizer->update(control.update_inputs(eager.learning_rates));
    control.finish_step();
    replay_with();
    EXPECT_TRUE(captured.equals(eager.copies())) << "after step " << step;
    EXPECT_TRUE(at::equal(captured_control.layer_scales(), control.layer_scales()));
  }
  const std::vector<at::Tensor> before = captured.copies();
  eager.draw_gradients(1024);
  eager.ours[4].tensor.mutable_grad().fill_(INFINITY);
  replay_with();
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(at::equal(captured.ours[i].tensor, before[i]), captured.ours[i].layer == 1) << i;
  const GradientReport report = captured_control.read();
  EXPECT_EQ(report.applied_steps, 4);
  EXPECT_EQ(report.skipped_steps, 1);
  EXPECT_EQ(report.first_skipped_layer, 1);
  EXPECT_EQ(report.loss_scale, 512);
}

TEST_P(CapturedUpdate, AllocatesNothing) {
  const at::Device device(at::kCUDA, 0);
  OptimizerCase test(device);
  GradientControl control({}, test.ours, 2);
  const auto optimizer = make_optimizer(GetParam(), test.ours);
  test.draw_gradients();
  const auto allocations = [] {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocation[0].allocated;
  };
  const std::int64_t before = allocations();
  control.measure();
  optimizer->update(control.update_inputs(test.learning_rates));
  control.finish_step();
  EXPECT_EQ(allocations(), before);
}

TEST_P(CapturedUpdate, MatchesTheCpu) {
  OptimizerCase host, device(at::Device(at::kCUDA, 0));
  GradientControl host_control({.clip_norm = 1}, host.ours, 2);
  GradientControl device_control({.clip_norm = 1}, device.ours, 2);
  const auto on_host = make_optimizer(GetParam(), host.ours);
  const auto on_device = make_optimizer(GetParam(), device.ours);
  for (int step = 0; step < 10; ++step) {
    host.draw_gradients();
    for (std::size_t i = 0; i < host.ours.size(); ++i)
      device.ours[i].tensor.mutable_grad() = host.ours[i].tensor.grad().to(at::kCUDA);
    host_control.measure();
    on_host->update(host_control.update_inputs(host.learning_rates));
    device_control.measure();
    on_device->update(device_control.update_inputs(device.learning_rates));
  }
  for (std::size_t i = 0; i < host.ours.size(); ++i)
    EXPECT_TRUE(at::allclose(device.ours[i].tensor.cpu(), host.ours[i].tensor, 1e-5, 1e-5));
}

TEST(StateInHostMemory, TakesNoneOfTheGpusAndIsSavedAndRestored) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
  const at::Device device(at::kCUDA, 0);
  const at::Tensor weight = at::randn({3'000'000}).to(device).requires_grad_();
  const std::vector<ParameterRef> parameters = {{"weight", weight, 0}};
  const auto allocated = [] {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].current;
  };
  const std::int64_t before = allocated();
  const auto on_host = make_optimizer({.state = StateFormat::Host}, parameters);
  EXPECT_EQ(allocated(), before);
  EXPECT_EQ(on_host->state_bytes(), 0);
  EXPECT_EQ(on_host->host_state_bytes(), 12'000'000);
  GradientControl control({}, parameters, 1);
  weight.mutable_grad() = at::ones_like(weight.detach());
  control.measure();
  on_host->update(control.update_inputs(at::full({1}, 0.1, weight.options())));
  StateMap saved;
  for (StateView& view : on_host->state()) saved.emplace(view.name, view);
  const auto on_device = make_optimizer({}, parameters);
  on_device->restore(saved);
  const auto again = make_optimizer({.state = StateFormat::Host}, parameters);
  again->restore(saved);
  for (const auto& other : {&on_device, &again})
    for (const StateView& view : (*other)->state())
      EXPECT_TRUE(std::ranges::equal(view.bytes, saved.at(view.name).bytes)) << view.name;
}

INSTANTIATE_TEST_SUITE_P(Kinds, CapturedUpdate, testing::ValuesIn(every_optimizer()),
                         [](const auto& which) { return optimizer_text(which.param); });

}  // namespace
}  // namespace triaccel
