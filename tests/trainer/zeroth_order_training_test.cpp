#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>

#include "tests/trainer/small_run.h"
#include "triaccel/base/error.h"
#include "triaccel/policies/zeroth_order/elastic_boundary.h"
#include "triaccel/telemetry/records/zeroth_order_file.h"
#include "triaccel/trainer/loop/network_state.h"
#include "triaccel/trainer/loop/run_parts.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel {
namespace {

/// LeNet-5 on 96 digits, six steps an epoch.
RunConfig digits_by(const std::string& method, std::int64_t bp_layers = -1) {
  RunConfig config = small_run();
  config.data.name = "mnist";
  config.data.root = digits_folder().string();
  config.data.train_samples = 96;
  config.train.batch = 16;
  config.train.control_interval = 2;
  config.train.method = method;
  config.zeroth_order.bp_layers = bp_layers;
  return config;
}

std::vector<std::byte> weights_after(const RunConfig& config) {
  const ScratchFolder folder;
  start_run(config, folder.path / "run");
  return final_weights(folder.path / "run");
}

TEST(MethodElasticZo, EqualsItsLimitsBitForBit) {
  RunConfig plain = digits_by("fp32");
  plain.train.lr = 0.01;
  plain.model.init = "kaiming";
  plain.model.memory_format = "contiguous";
  plain.data.augment = false;
  EXPECT_EQ(weights_after(digits_by("elasticzo", 5)), weights_after(plain));
  RunConfig none = digits_by("elasticzo", 0);
  none.zeroth_order.lr = 6e-5;
  EXPECT_EQ(weights_after(none), weights_after(digits_by("zo")));
}

TEST(MethodElasticZo, LearnsDigits) {
  RunConfig config = digits_by("elasticzo");
  config.train.epochs = 15;
  const ScratchFolder folder;
  EXPECT_GT(start_run(config, folder.path / "run").accuracy, 90);
}

TEST(MethodZo, GoesOnAfterAnInterruptionAsIfThereHadBeenNone) {
  for (RunConfig config : {digits_by("zo"), digits_by("elasticzo", 1)}) {
    config.zeroth_order.momentum = 0.5;
    config.run.checkpoint_every = 3;
    const ScratchFolder folder;
    const auto whole = folder.path / "whole", cut = folder.path / "cut";
    start_run(config, whole);
    int asked = 0;
    start_run(config, cut, {.stop_requested = [&] { return ++asked == 7; }});
    resume_run(cut);
    EXPECT_EQ(final_weights(whole), final_weights(cut));
    EXPECT_EQ(read_zeroth_order(whole / kZerothOrderCsv), read_zeroth_order(cut / kZerothOrderCsv));
  }
}

TEST(MethodZo, IsRedoneFromItsFirstWeightsAndSlopes) {
  const RunConfig config = resolved(digits_by("zo"));
  const ScratchFolder folder;
  start_run(config, folder.path / "run");
  const auto steps = read_zeroth_order(folder.path / "run" / kZerothOrderCsv);
  EXPECT_EQ(steps.size(), 12u);
  RunParts parts(config);
  redo_zeroth_order(parts.network, config, steps);
  std::map<std::string, StateView> redone;
  for (const StateView& view : network_state(parts.network)) redone.emplace(view.name, view);
  std::vector<std::byte> bytes;
  for (const auto& [name, view] : redone)
    bytes.insert(bytes.end(), view.bytes.begin(), view.bytes.end());
  EXPECT_EQ(bytes, final_weights(folder.path / "run"));
}

TEST(MethodElasticZo, TakesAsManyLayersByBackpropagationAsTheBudgetHolds) {
  const auto layers_within = [](const std::string& budget) {
    RunConfig config = digits_by("elasticzo");
    config.train.batch = 64;
    config.device.budget = budget;
    const RunParts parts(resolved(config));
    return std::pair(bp_layers_of(parts.plan), parts.plan.micro_batch_size);
  };
  std::int64_t used = 0;
  {
    const RunParts unlimited(resolved(digits_by("elasticzo")));
    EXPECT_EQ(bp_layers_of(unlimited.plan), 2);
    used = unlimited.on.gauge.read().used;
  }
  const auto roomy = layers_within("1GiB");
  EXPECT_EQ(roomy, (std::pair<std::int64_t, std::int64_t>(5, 64)));
  const auto tight = layers_within(std::to_string(used + 1'200'000));
  EXPECT_LT(tight.second, 64);
  EXPECT_GE(tight.first, 1);
}

TEST(MethodElasticZo, GoesOnUnderABudgetAsIfThereHadBeenNoInterruption) {
  std::int64_t used = 0;
  {
    const RunParts unlimited(resolved(digits_by("elasticzo")));
    used = unlimited.on.gauge.read().used;
  }
  RunConfig config = digits_by("elasticzo");
  config.device.budget = std::to_string(used + 1'200'000);
  config.run.checkpoint_every = 3;
  const ScratchFolder folder;
  const auto whole = folder.path / "whole", cut = folder.path / "cut";
  Recorder recorder;
  start_run(config, whole, {.sinks = {&recorder}});
  EXPECT_LT(bp_layers_of(recorder.plans.front()), 5) << "the budget holds all layers";
  int asked = 0;
  start_run(config, cut, {.stop_requested = [&] { return ++asked == 7; }});
  resume_run(cut);
  EXPECT_EQ(final_weights(whole), final_weights(cut));
}

TEST(MethodElasticZo, TrainsInEveryBudgetThatHoldsAPlan) {
  RunConfig config = digits_by("elasticzo");
  config.data.name = "synthetic";
  config.data.train_samples = 60'000;  // so that their order takes more than a pass does
  config.train.steps = 1;
  std::int64_t used = 0;
  {
    const RunParts unlimited(resolved(config));
    used = unlimited.on.gauge.read().used;
  }
  int trained = 0;
  for (std::int64_t more = 1'200'000; more < 1'800'000; more += 100'000) {
    config.device.budget = std::to_string(used + more);
    bool fits = false;
    try {
      const RunParts parts(resolved(config));
      fits = bp_layers_of(parts.plan) > 0;
    } catch (const OutOfMemory&) {
    }
    if (!fits) continue;
    const ScratchFolder folder;
    EXPECT_NO_THROW(start_run(config, folder.path / "run")) << more;
    ++trained;
  }
  EXPECT_GE(trained, 3);
}

TEST(MethodElasticZo, MovesItsBoundaryWhileItTrains) {
  RunConfig config = digits_by("elasticzo", 1);
  config.data.train_samples = 16;  // one batch, and
  config.train.epochs = 50;
  config.train.lr = 1e-6;  // nothing moves: the loss stands still
  config.run.checkpoint_every = 1000;
  config.zeroth_order.lr = 1e-9;
  config.train.control_interval = 1;
  config.zeroth_order.move_boundary = true;
  Recorder recorder;
  const ScratchFolder folder;
  start_run(config, folder.path / "run", {.sinks = {&recorder}});
  EXPECT_GT(bp_layers_of(recorder.plans.back()), 1);
  EXPECT_TRUE(recorder.noticed("loss plateau"));
}

TEST(MethodZo, RefusesABoundary) {
  EXPECT_THROW(resolved(digits_by("zo", 2)), UsageError);
  EXPECT_THROW(RunParts(resolved(digits_by("elasticzo", 6))), UsageError);
  RunConfig config = digits_by("zo");
  config.zeroth_order.epsilon = 0;
  EXPECT_THROW(resolved(config), UsageError);
}

}  // namespace
}  // namespace triaccel
