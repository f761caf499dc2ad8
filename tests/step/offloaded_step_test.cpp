#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/step/step_parts.h"
#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"

namespace triaccel {
namespace {

const ModelOptions kResidual{.name = "resnet18", .stem = "cifar", .width = 4};

/// A network with dropout whose maps are worth host memory.
struct OffloadBench : CpuStep {
  OffloadBench(const ModelOptions& model, bool offloads) {
    install_cpu_memory();
    torch::manual_seed(3);
    network = make_model(model);
    StepNetwork parts = step_network(network);
    parts.forward = [this](const at::Tensor& x) {
      return network.forward(at::dropout(x, 0.5, /*train=*/true));
    };
    StepRunnerOptions options{.optimizer = {.kind = OptimizerKind::AdamW}};
    if (offloads) options.saved = SavedStoreOptions{.exact = true};
    runner = std::make_unique<StepRunner>(parts, options, gauge, kCpu);
    plan.layers.resize(static_cast<std::size_t>(network.layers.size()));
    if (offloads) plan_offload();
  }

  void plan_offload() {
    runner->take_census(plan, synthetic_samples(), at::arange(11));
    plan.saved = all_on_host(runner->census());
  }
};

struct Trained {
  std::vector<at::Tensor> state;
  std::vector<double> losses;
  std::int64_t peak = 0, host_bytes = 0;
};

Trained after_steps(bool offloads) {
  OffloadBench bench(kResidual, offloads);
  torch::manual_seed(7);
  Trained trained;
  bench.gauge.reset_peak();
  const std::int64_t used = bench.gauge.used();
  // Steps of one pass, of several, and of passes of other sizes.
  for (const auto& [batch, pass] : {std::pair{32, 32}, {48, 16}, {32, 32}, {50, 17}, {64, 32}}) {
    bench.run(batch, pass);
    trained.losses.push_back(bench.runner->collect().loss);
  }
  trained.peak = bench.gauge.read().peak - used;
  trained.state = bench.state();
  if (offloads) trained.host_bytes = bench.runner->saved()->host_bytes();
  return trained;
}

TEST(OffloadedStep, TrainsToTheSameBytesInLessMemory) {
  const Trained raw = after_steps(false), offloaded = after_steps(true);
  EXPECT_EQ(offloaded.losses, raw.losses);
  EXPECT_TRUE(same_bytes(offloaded.state, raw.state));
  EXPECT_LT(offloaded.peak, raw.peak * 3 / 4);
  EXPECT_GT(offloaded.host_bytes, 0);
}

TEST(OffloadedStep, ReportsWhatLiesInHostMemory) {
  OffloadBench bench(kResidual, true);
  bench.run(32, 32);
  const SavedCounts saved = bench.runner->collect().saved.value();
  EXPECT_EQ(saved.mismatches, 0);
  EXPECT_GT(saved.host_bytes(), saved.all_held_bytes());
  EXPECT_LE(saved.host_bytes(), bench.runner->saved()->host_bytes());
}

class OffloadedFault : public testing::TestWithParam<bool> {};

// An allocation that fails, in places all over a step, or all from there on: nothing changed, and
// the next try trains as without.
TEST_P(OffloadedFault, LeavesNothingBehindAndTheNextTryTrainsTheSame) {
  const bool persistently = GetParam();
  OffloadBench raw(kLenet, false), bench(kLenet, true);
  const auto run = [](OffloadBench& one) { one.run(96, 48); };
  torch::manual_seed(7);
  run(raw);
  torch::manual_seed(7);
  run(bench);
  const std::int64_t host_bytes = bench.runner->saved()->host_bytes();
  EXPECT_GT(host_bytes, 0);
  std::int64_t refused = 0;
  for (std::int64_t k = 0, more = true; more; k += persistently ? 13 : 9) {
    torch::manual_seed(k);
    run(raw);
    torch::manual_seed(k);
    const auto before = bench.state();
    const std::int64_t refusals = cpu_refusal_count();
    fail_cpu_allocation(k, persistently);
    try {
      run(bench);
      fail_cpu_allocation(-1);
    } catch (const OutOfMemory&) {
      fail_cpu_allocation(-1);
      ++refused;
      ASSERT_TRUE(same_bytes(bench.state(), before)) << k;
      run(bench);
    }
    more = cpu_refusal_count() > refusals;
    ASSERT_TRUE(same_bytes(bench.state(), raw.state())) << k;
  }
  EXPECT_GT(refused, 8);
  EXPECT_EQ(bench.runner->saved()->host_bytes(), host_bytes);
}

INSTANTIATE_TEST_SUITE_P(Allocations, OffloadedFault, testing::Bool());

TEST(OffloadedStep, SaysWhenTheHostHasNoMemoryLeft) {
  std::string message;
  for (std::int64_t k = 0; message.find("host memory") == std::string::npos && k < 100; ++k) {
    OffloadBench bench(kLenet, true);
    const auto before = bench.state();
    fail_cpu_allocation(k);
    try {
      bench.run(96, 48);
    } catch (const OutOfMemory& error) {
      message = error.what();
      EXPECT_TRUE(same_bytes(bench.state(), before)) << k;
    }
    fail_cpu_allocation(-1);
  }
  EXPECT_NE(message.find("saved activations have 0 B of host memory and need more"),
            std::string::npos)
      << message;
}

}  // namespace
}  // namespace triaccel
