#include "triaccel/step/step_batch.h"
#include "tests/step/step_parts.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/step/step_runner.h"

namespace triaccel {
namespace {

constexpr std::int64_t kSamples = 12;

/// A network that a caller steps with a closure of its own and an optimizer of its own.
struct Caller {
  explicit Caller(StepRunnerOptions options = {}) {
    install_cpu_memory();
    torch::manual_seed(7);
    network = make_model({.name = "lenet5", .input_channels = 3, .classes = 10});
    StepNetwork parts = step_network(network);
    const auto named = network.module->named_parameters();
    for (const LayerInfo& layer : network.layers.layers())
      parts.weights.push_back(named[layer.parameters.front()]);
    options.leave_gradients = true;
    runner = std::make_unique<StepRunner>(parts, options, gauge, kCpu);
    plan.batch_size = plan.micro_batch_size = kSamples;
    plan.layers.resize(static_cast<std::size_t>(network.layers.size()));
    images = torch::randn({kSamples, 3, 32, 32});
    labels = torch::randint(10, {kSamples});
    weights = torch::rand({kSamples}) + 0.1;
  }

  at::Tensor losses(std::int64_t first, std::int64_t count) const {
    return torch::cross_entropy_loss(network.forward(images.narrow(0, first, count)),
                                     labels.narrow(0, first, count), {}, at::Reduction::None);
  }
  ClosureLoss mean(std::int64_t first, std::int64_t count) const {
    return {.loss = losses(first, count).mean()};
  }
  /// As losses over tokens are: each sample counts differently.
  ClosureLoss weighted(std::int64_t first, std::int64_t count) const {
    const at::Tensor w = weights.narrow(0, first, count);
    return {.loss = (losses(first, count) * w).sum(), .count = w.sum()};
  }

  at::Tensor step(std::int64_t pass, const ClosureBatch::Closure& closure) {
    plan.micro_batch_size = pass;
    ClosureBatch batch(kSamples, closure, kCpu);
    runner->run(plan, batch, 0);
    return batch.mean_loss();
  }
  std::vector<at::Tensor> take_gradients() const {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : network.module->parameters()) {
      gradients.push_back(parameter.grad());
      parameter.mutable_grad().reset();
    }
    return gradients;
  }
  std::vector<at::Tensor> state() const {
    return step_state(network, {&runner->gradient_control()});
  }

  MemoryGauge gauge{kCpu};
  Network network;
  std::unique_ptr<StepRunner> runner;
  StepPlan plan;
  at::Tensor images, labels, weights;
};

void expect_close(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(torch::allclose(found[i], expected[i], 1e-4, 1e-6)) << i;
}

TEST(ClosureBatch, LeavesTheGradientsOfAPlainLoopBitForBit) {
  Caller caller;
  const at::Tensor loss = caller.mean(0, kSamples).loss;
  loss.backward();
  const auto expected = caller.take_gradients();
  const at::Tensor found =
      caller.step(kSamples, [&](auto first, auto count) { return caller.mean(first, count); });
  EXPECT_TRUE(at::equal(found, loss.detach()));
  const auto gradients = caller.take_gradients();
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::equal(gradients[i], expected[i])) << i;
}

TEST(ClosureBatch, HasOneMeanWhateverItsPasses) {
  Caller caller;
  const auto mean = [&](auto first, auto count) { return caller.mean(first, count); };
  const at::Tensor whole = caller.step(kSamples, mean);
  const auto expected = caller.take_gradients();
  for (const std::int64_t pass : {5, 4, 1}) {
    EXPECT_NEAR(caller.step(pass, mean).item<double>(), whole.item<double>(), 1e-5);
    expect_close(caller.take_gradients(), expected);
  }
}

TEST(ClosureBatch, DividesSumsByWhatIsCountedInAllPasses) {
  Caller caller;
  const auto weighted = [&](auto first, auto count) { return caller.weighted(first, count); };
  const at::Tensor whole = caller.step(kSamples, weighted);
  const auto expected = caller.take_gradients();
  for (const std::int64_t pass : {5, 4, 1}) {
    EXPECT_NEAR(caller.step(pass, weighted).item<double>(), whole.item<double>(), 1e-5);
    expect_close(caller.take_gradients(), expected);
  }
}

TEST(ClosureBatch, MayCountNothingInSomePasses) {
  Caller caller;
  const auto weighted = [&](auto first, auto count) { return caller.weighted(first, count); };
  for (const auto& [from, to] : {std::pair(0, 4), std::pair(2, 7)}) {  // the first pass or another
    caller.weights.fill_(1);
    caller.weights.slice(0, from, to).zero_();
    const at::Tensor whole = caller.step(kSamples, weighted);
    const auto expected = caller.take_gradients();
    for (const std::int64_t pass : {4, 2, 1}) {
      EXPECT_NEAR(caller.step(pass, weighted).item<double>(), whole.item<double>(), 1e-5);
      expect_close(caller.take_gradients(), expected);
    }
    EXPECT_EQ(caller.runner->collect().nonfinite_losses, 0);
  }
  caller.weights.zero_();
  for (const std::int64_t pass : {kSamples, std::int64_t{3}}) {
    caller.step(pass, weighted);
    for (const at::Tensor& gradient : caller.take_gradients())
      EXPECT_TRUE(at::equal(gradient, at::zeros_like(gradient))) << pass;
  }
}

TEST(ClosureBatch, HasPassesThatReachAcrossNoPart) {
  Caller caller;
  std::vector<std::pair<std::int64_t, std::int64_t>> passes;
  const auto mean = [&](auto first, auto count) {
    passes.emplace_back(first, count);
    return caller.mean(first, count);
  };
  caller.step(kSamples, mean);
  const auto expected = caller.take_gradients();
  passes.clear();
  caller.plan.micro_batch_size = 3;
  ClosureBatch parts(std::vector<std::int64_t>{2, 5, kSamples - 7}, mean, kCpu);
  caller.runner->run(caller.plan, parts, 0);
  expect_close(caller.take_gradients(), expected);
  std::int64_t next = 0;
  for (const auto& [first, count] : passes) {
    EXPECT_EQ(first, std::exchange(next, next + count));
    EXPECT_LE(count, 3);
    EXPECT_TRUE(first >= 2 || first + count <= 2) << first;
    EXPECT_TRUE(first >= 7 || first + count <= 7) << first;
  }
  EXPECT_EQ(next, kSamples);
}

TEST(ClosureBatch, ReportsItsLoss) {
  Caller caller;
  const auto mean = [&](auto first, auto count) { return caller.mean(first, count); };
  const double loss = caller.step(4, mean).item<double>();
  EXPECT_NEAR(caller.runner->collect().loss, loss, 1e-5);
  caller.step(kSamples,
              [&](auto, auto) { return ClosureLoss{.loss = caller.mean(0, kSamples).loss / 0.0}; });
  EXPECT_EQ(caller.runner->collect().nonfinite_losses, 1);
}

TEST(ClosureBatch, ThatThrowsOrRunsOutOfMemoryChangesNothing) {
  Caller caller;
  const auto mean = [&](auto first, auto count) { return caller.mean(first, count); };
  caller.step(4, mean);
  caller.take_gradients();
  const auto before = caller.state();
  EXPECT_THROW(caller.step(4,
                           [&](std::int64_t first, std::int64_t count) {
                             torch::rand({1});
                             if (first > 0) throw std::logic_error("of the caller's own");
                             return caller.mean(first, count);
                           }),
               std::logic_error);
  EXPECT_TRUE(same_bytes(caller.state(), before));
  std::int64_t failures = 0;
  for (std::int64_t allocation = 0;; ++allocation) {
    fail_cpu_allocation(allocation);
    try {
      caller.step(4, mean);
      fail_cpu_allocation(-1);
      break;
    } catch (const OutOfMemory&) {
      ++failures;
    }
    fail_cpu_allocation(-1);
    for (const at::Tensor& parameter : caller.network.module->parameters())
      EXPECT_FALSE(parameter.grad().defined());
    EXPECT_TRUE(same_bytes(caller.state(), before));
  }
  EXPECT_GT(failures, 20);
}

TEST(ClosureBatch, CanBeTakenBackBeforeItsGradientsAreApplied) {
  Caller caller;
  const auto before = caller.state();
  caller.step(4, [&](auto first, auto count) {
    torch::rand({1});
    return caller.mean(first, count);
  });
  caller.runner->take_back();
  EXPECT_TRUE(same_bytes(caller.state(), before));
}

TEST(DatasetBatch, TakesALossOfTheCallersOwn) {
  const auto own = [](const at::Tensor& outputs, const at::Tensor& targets) {
    return torch::cross_entropy_loss(outputs, targets);
  };
  Caller with({.loss = own}), without;
  for (Caller* caller : {&with, &without})
    caller->runner->run(caller->plan, synthetic_samples(), at::arange(kSamples), {}, 0);
  expect_close(with.take_gradients(), without.take_gradients());
  EXPECT_NEAR(with.runner->collect().loss, without.runner->collect().loss, 1e-5);
}

}  // namespace
}  // namespace triaccel
