#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/trainer/paper_rules.h"
#include "tests/trainer/watched_run.h"
#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/telemetry/records/plan_record.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

bool all_in(const StepPlan& plan, Precision precision) {
  return std::ranges::all_of(
      plan.layers, [precision](const LayerPlan& layer) { return layer.compute == precision; });
}

TEST(AForcedPrecision, HoldsForEveryLayerAllTheTime) {
  using Case = std::pair<const char*, Precision>;
  for (const auto& [name, precision] :
       {Case{"fp32", Precision::Fp32}, Case{"off", Precision::Fp32}, Case{"bf16", Precision::Bf16},
        Case{"fp16", Precision::Fp16}}) {
    RunConfig config = digits_run();
    config.model.width = 2;
    config.control.precision = name;
    WatchedRun run(config);
    const RunSummary summary = run.run();
    for (const StepPlan& plan : run.plans) EXPECT_TRUE(all_in(plan, precision)) << name;
    EXPECT_EQ(summary.skipped_steps, 0) << name;
    EXPECT_GT(summary.curvature_probes, 0);
    EXPECT_TRUE(run.is_finite());
  }
}

TEST(TheControlLoop, KeepsThePlanWithEveryMechanismOff) {
  WatchedRun run(plain_digits_run());
  const RunSummary summary = run.run();
  EXPECT_EQ(run.plans.size(), 1u);
  EXPECT_EQ(summary.plan_changes, 0);
  EXPECT_EQ(summary.curvature_probes, 0);
  EXPECT_EQ(summary.batch_largest, 16);
}

TEST(TheControlLoop, SwitchesItsMechanismsOffOneByOne) {
  RunConfig config = digits_run();
  config.control.precision = "off";
  WatchedRun precision(config);
  precision.run();
  for (const StepPlan& plan : precision.plans) EXPECT_TRUE(all_in(plan, Precision::Fp32));
  config = digits_run();
  config.control.batch = "off";
  WatchedRun batch(config);
  batch.run();
  for (const StepPlan& plan : batch.plans) EXPECT_EQ(plan.batch_size, 16);
  config = digits_run();
  config.control.curvature = "off";
  WatchedRun curvature(config);
  curvature.run();
  for (const StepPlan& plan : curvature.plans)
    for (const LayerPlan& layer : plan.layers) EXPECT_EQ(layer.learning_rate_scale, 1);
}

TEST(TheControlLoop, LowersRatesByCurvatureOnlyWhereItIsToldTo) {
  const auto lowest_rate = [](const char* policy, double smallest) {
    RunConfig config = digits_run();
    config.control.policy = policy;
    config.control.curvature_rules.rate_floor = smallest;
    config.control.curvature_rules.cap = 1e-6;   // robust
    config.control.curvature_rules.alpha = 1e6;  // paper
    WatchedRun run(config);
    run.run();
    float lowest = 1;
    for (const StepPlan& plan : run.plans)
      for (const LayerPlan& layer : plan.layers)
        lowest = std::min(lowest, layer.learning_rate_scale);
    return lowest;
  };
  EXPECT_EQ(lowest_rate("robust", 0), 1);
  EXPECT_EQ(lowest_rate("robust", 0.25), 0.25F);
  EXPECT_EQ(lowest_rate("paper", 0), 0.1F);
}

TEST(TheControlLoop, FollowsThePapersRules) {
  RunConfig config = digits_run();
  config.model.width = 2;
  config.train.batch = 12;  // eight steps an epoch
  config.train.epochs = 4;
  expect_all_precisions_by_paper_rules(paper_run(config));
}

TEST(TheControlLoop, ProbesAndDecidesWhereItSaysSo) {
  RunConfig config = digits_run();
  config.control.batch = "off";  // twelve steps
  config.control.curvature_every = 5;
  config.train.control_interval = 3;
  WatchedRun run(config);
  EXPECT_EQ(run.run().curvature_probes, 2);
  std::vector<std::int64_t> decided;
  for (const StepReport& report : run.reports) {
    decided.push_back(report.step);
    EXPECT_EQ(report.curvature.has_value(), report.step % 5 == 0);
  }
  EXPECT_EQ(decided, (std::vector<std::int64_t>{3, 5, 6, 9, 10, 12}));
}

/// A slim residual network on digits, four steps an epoch.
WatchedRun compressed_run(const std::string& method, double ratio, double epochs = 1) {
  RunConfig config = digits_run();
  config.train.method = method;
  config.train.batch = 24;
  config.data.train_samples = 96;
  config.train.epochs = epochs;
  config.train.control_interval = 2;
  config.activations.keep = "compressed";
  config.activations.ratio = ratio;
  config.activations.profile_every = 4;
  config.device.threads = 1;
  return WatchedRun(config, make_model({.name = "resnet18",
                                        .stem = "cifar",
                                        .width = 16,
                                        .input_channels = 1,
                                        .image_size = 28}));
}

double held_ratio(const StepReport& report) {
  return static_cast<double>(report.saved.value().fp32_bytes) /
         static_cast<double>(report.saved->all_held_bytes());
}

class CompressedRuns : public testing::TestWithParam<std::string> {};

// Of what an FP32 run saves, whatever the layers compute in.
TEST_P(CompressedRuns, TakeTheBytesThatTheRatioAllows) {
  WatchedRun run = compressed_run(GetParam(), /*ratio=*/8);
  run.run();
  ASSERT_FALSE(run.reports.empty());
  for (const StepReport& report : run.reports) {
    EXPECT_EQ(report.saved->mismatches, 0);
    EXPECT_GE(held_ratio(report), 7.99);
    EXPECT_LE(held_ratio(report), 8.5);
  }
}

TEST(CompressedRun, FollowsTheNoiseWhenItsRatioIsAutomatic) {
  WatchedRun run = compressed_run("fp32", RunConfig::Activations::kAutoRatio, /*epochs=*/3);
  run.run();
  ASSERT_FALSE(run.reports.empty());
  std::optional<double> noise;  // compression's over the mini-batch's, last measured
  double ratio = held_ratio(run.reports.front());
  std::int64_t changes = 0;
  for (const StepReport& report : run.reports) {
    if (noise && std::abs(held_ratio(report) / ratio - 1) > 0.02) {
      EXPECT_EQ(held_ratio(report) > ratio, *noise < 0.0125) << "after noise of " << *noise;
      ratio = held_ratio(report);
      ++changes;
    }
    if (report.compression_noise)
      noise =
          report.compression_noise->compression_variance / report.compression_noise->batch_variance;
  }
  EXPECT_GT(changes, 0);
}

INSTANTIATE_TEST_SUITE_P(Methods, CompressedRuns, testing::Values("fp32", "triaccel"));

/// LeNet-5 one of whose layers gets an infinite gradient for as long as it computes in a precision.
struct OverflowingLayer : WatchedRun {
  OverflowingLayer(const RunConfig& wanted, std::int64_t number, Precision in)
      : WatchedRun(wanted, wrapped(digits_lenet())), layer(number), precision(in) {}

  Network wrapped(Network network) {
    network.forward = [this, forward = network.forward](const at::Tensor& inputs) {
      const at::Tensor logits = forward(inputs);
      if (!armed || !parts.network.module->is_training() || !at::GradMode::is_enabled())
        return logits;
      const at::Tensor extra =
          layer_weights(parts.network)[static_cast<std::size_t>(layer)].sum() * 0;
      extra.register_hook([](const at::Tensor& gradient) {
        return at::full_like(gradient, std::numeric_limits<float>::infinity());
      });
      return logits + extra;
    };
    return network;
  }
  void plan(std::int64_t step, const StepPlan& next) override {
    WatchedRun::plan(step, next);
    now = next.layers[static_cast<std::size_t>(layer)].compute;
    armed = now == precision;
  }

  std::int64_t layer;
  Precision precision;
  Precision now = Precision::Fp32;
  bool armed = false;
};

// The controller's answer to a layer that keeps overflowing.
TEST(AnOverflowingLayer, GoesUpARungAfterThreeSkippedSteps) {
  RunConfig config = digits_run();
  config.train.control_interval = 1;
  config.control.curvature = "off";
  config.control.batch = "off";
  for (const Precision precision : {Precision::Bf16, Precision::Fp16}) {
    if (precision == Precision::Fp16) {  // what the paper's rule gives every layer below tau_low
      config.control.policy = "paper";
      config.control.precision_rules.tau_low = config.control.precision_rules.tau_high = 1e30;
    }
    for (std::int64_t layer = 0; layer < 5; ++layer) {
      OverflowingLayer run(config, layer, precision);
      const RunSummary summary = run.run();
      EXPECT_EQ(summary.skipped_steps, 3) << "layer " << layer;
      EXPECT_EQ(rank_of(run.now), rank_of(precision) + 1) << "layer " << layer;
      EXPECT_TRUE(run.noticed("layer '" + run.parts.network.layers[layer].name + "'"));
      EXPECT_TRUE(run.noticed("guard: layer " + std::to_string(layer)));
      EXPECT_EQ(run.reports.back().skipped_steps, 0);
      EXPECT_TRUE(run.is_finite());
    }
  }
}

// What the scale of an FP16 layer does about one overflow.
TEST(AnOverflowingGradient, IsSkippedOnceAndHalvesTheScalesAtLeast) {
  Network network = digits_lenet();
  std::int64_t passes = 0;
  network.forward = [&passes, forward = network.forward](const at::Tensor& inputs) {
    const at::Tensor logits = forward(inputs);
    if (at::GradMode::is_enabled() && ++passes == 6)
      logits.register_hook([](const at::Tensor& gradient) { return gradient * 1024; });
    return logits;
  };
  RunConfig config = digits_run();
  config.train.control_interval = 1;
  config.control.precision = "fp16";
  config.control.curvature = "off";
  config.control.batch = "off";
  WatchedRun run(config, network);
  EXPECT_EQ(run.run().skipped_steps, 1);
  EXPECT_EQ(run.reports[5].skipped_steps, 1);
  EXPECT_EQ(run.reports[5].skipped_layer, 4);
  EXPECT_LE(run.reports[6].layers[4].fp16_scale, run.reports[5].layers[4].fp16_scale / 2);
  EXPECT_TRUE(run.noticed("the gradients overflowed"));
}

struct Interruption {
  std::string name;
  std::string optimizer = "sgd";
  std::string curvature = "fisher_gram";
  std::string policy = "robust";
  std::string budget = "none";
};

class ResumedControl : public testing::TestWithParam<Interruption> {};

RunConfig resumed_config(const Interruption& how) {
  RunConfig config = digits_run();
  config.model.width = 2;
  if (how.curvature != "hessian") {  // there LeNet-5: a probe takes a while
    config.model.name = "resnet18";
    config.model.width = 8;
  }
  config.train.batch = 8;
  config.train.optimizer = how.optimizer;
  config.train.control_interval = 3;
  config.train.ema = 0.9;
  config.control.curvature = how.curvature;
  config.control.curvature_batch = 8;
  config.control.batch_rules.kappa = 1;  // so that batches of these few samples grow
  config.control.policy = how.policy;
  config.device.budget = how.budget;
  return config;
}

TEST_P(ResumedControl, GivesTheSameBytesAsNoInterruption) {
  const RunConfig config = resumed_config(GetParam());
  const ScratchFolder scratch;
  const fs::path whole = scratch.path / "whole";
  EXPECT_GT(start_run(config, whole).plan_changes, 0);
  const std::vector<std::byte> wanted = final_weights(whole);
  for (const int stop_after : {2, 4, 7}) {
    const fs::path run = scratch.path / std::to_string(stop_after);
    int steps = 0;
    start_run(config, run, {.stop_requested = [&] { return ++steps == stop_after; }});
    steps = 0;
    resume_run(run, {.stop_requested = [&] { return ++steps == 2; }});
    EXPECT_EQ(resume_run(run).status, "finished");
    EXPECT_EQ(read_plans(run / kPlansJsonl), read_plans(whole / kPlansJsonl)) << stop_after;
    EXPECT_EQ(final_weights(run), wanted) << "stopped after " << stop_after;
  }
}

/// Ends a run as a crash would.
struct Crash final : Sink {
  explicit Crash(std::int64_t after) : step(after) {}
  void interval(const StepReport& report, const StepPlan&) override {
    if (report.step >= step) throw StorageError("no more");
  }
  std::int64_t step;
};

TEST_P(ResumedControl, GivesTheSameBytesAfterACrashBetweenDecisions) {
  RunConfig config = resumed_config(GetParam());
  const ScratchFolder scratch;
  start_run(config, scratch.path / "whole");
  config.run.checkpoint_every = 5;
  const fs::path run = scratch.path / "run";
  Crash crash(6);
  EXPECT_THROW(start_run(config, run, {.sinks = {&crash}}), StorageError);
  EXPECT_EQ(resume_run(run).status, "finished");
  EXPECT_EQ(final_weights(run), final_weights(scratch.path / "whole"));
}

INSTANTIATE_TEST_SUITE_P(
    Runs, ResumedControl,
    testing::Values(Interruption{.name = "fisher"},
                    Interruption{.name = "hessian", .optimizer = "adamw", .curvature = "hessian"},
                    Interruption{.name = "budget", .budget = "5MiB"},
                    Interruption{.name = "paper", .policy = "paper", .budget = "6MiB"}),
    [](const auto& one) { return one.param.name; });

TEST(Kernels, AreTheSameInEveryRunUnlessTheyAreMeasured) {
  RunConfig config = digits_run();
  const std::string by_rule = RunParts(resolved(config)).kernels;
  EXPECT_TRUE(by_rule.starts_with("0-1:fp32=gemm,bf16=gemm")) << by_rule;
  config.control.kernels = "gemm";
  EXPECT_EQ(RunParts(resolved(config)).kernels, by_rule);
  config.control.kernels = "measured";
  config.train.deterministic = true;
  EXPECT_THROW(resolved(config), UsageError);
}

TEST(ResumeRun, UsesTheKernelsThatWereMeasuredAtTheStart) {
  RunConfig config = digits_run();
  config.control.kernels = "measured";
  const ScratchFolder scratch;
  int steps = 0;
  start_run(config, scratch.path, {.stop_requested = [&] { return ++steps == 3; }});
  const std::string measured = read_run_config(scratch.path).control.kernels;
  EXPECT_NE(measured.find("fp32="), std::string::npos) << measured;
  resume_run(scratch.path);
  EXPECT_EQ(read_run_config(scratch.path).control.kernels, measured);
  RunConfig stored = config;
  stored.control.kernels = measured;
  EXPECT_EQ(RunParts(resolved(stored)).kernels, measured);
}

TEST(AReplay, RepeatsThePlansAndTheWeightsOfTheRecordedRun) {
  const ScratchFolder scratch;
  const fs::path recorded = scratch.path / "recorded", replayed = scratch.path / "replayed";
  RunConfig config = resumed_config({});
  config.train.batch = 16;
  config.control.curvature_every = 3;  // as often as decisions
  int steps = 0;
  const auto fail_once = [&] {
    if (++steps == 4) fail_cpu_allocation(60);  // between two decisions
    return false;
  };
  EXPECT_EQ(start_run(config, recorded, {.stop_requested = fail_once}).memory_retries, 1);
  fail_cpu_allocation(-1);
  const std::vector<ScheduledPlan> plans = read_plans(recorded / kPlansJsonl);
  EXPECT_TRUE(
      std::ranges::any_of(plans, [](const ScheduledPlan& record) { return record.step == 4; }));
  config.control.replay = (recorded / kPlansJsonl).string();
  start_run(config, replayed);
  EXPECT_EQ(read_plans(replayed / kPlansJsonl), plans);
  EXPECT_EQ(final_weights(replayed), final_weights(recorded));
}

TEST(AReplay, GoesOnWithItsOwnCopyOfThePlansWhereverItIsMoved) {
  const ScratchFolder scratch;
  RunConfig config = digits_run();
  config.control.curvature = "off";
  start_run(config, scratch.path / "recorded");
  config.control.replay = (scratch.path / "recorded" / kPlansJsonl).string();
  int steps = 0;
  start_run(config, scratch.path / "replayed", {.stop_requested = [&] { return ++steps == 3; }});
  const auto wanted = final_weights(scratch.path / "recorded");
  fs::remove_all(scratch.path / "recorded");
  const fs::path moved = scratch.path / "moved";
  fs::rename(scratch.path / "replayed", moved);
  EXPECT_EQ(resume_run(moved).status, "finished");
  EXPECT_EQ(final_weights(moved), wanted);
  fs::remove(moved / kReplayedPlansFile);
  EXPECT_GT(evaluate_run(moved).samples, 0) << "the plan of the checkpoint is all it needs";
}

TEST(AReplay, RefusesPlansOfAnotherNetwork) {
  const ScratchFolder scratch;
  RunConfig config = digits_run();
  start_run(config, scratch.path / "recorded");
  config.control.replay = (scratch.path / "recorded" / kPlansJsonl).string();
  config.model.name = "resnet18";
  config.model.width = 8;
  EXPECT_THROW(start_run(config, scratch.path / "replayed"), UsageError);
}

TEST(AScheduleInSteps, DoesNotEndBeforeTheRunWhenTheBatchGrows) {
  RunConfig config = digits_run();
  config.control.curvature = "off";
  config.train.batch = 8;
  config.train.steps = 24;
  config.train.control_interval = 1;
  WatchedRun run(config);
  EXPECT_GT(run.run().batch_largest, 16);
  EXPECT_GT(run.reports[17].learning_rate, 0.1 * config.train.lr);
  EXPECT_GT(run.reports[17].learning_rate, run.reports[22].learning_rate);
  EXPECT_GT(run.reports[22].learning_rate, 0);
}

}  // namespace
}  // namespace triaccel
