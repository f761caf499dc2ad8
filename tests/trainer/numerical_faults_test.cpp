#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "tests/trainer/watched_run.h"
#include "triaccel/base/error.h"
#include "triaccel/trainer/measure/diagnosis.h"

namespace triaccel {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::uint64_t draw(std::uint64_t number, std::uint64_t what, std::uint64_t below) {
  return random_words(number, what, 11).words[0] % below;
}

RunConfig faulty_run() {
  RunConfig config = digits_run();
  config.train.batch = 8;
  config.data.train_samples = 48;
  config.control.batch = "off";
  config.control.curvature_every = 3;
  return config;
}

/// Of a run whose next decision is far away: what is found is found by the step itself.
std::string skipped_at(std::int64_t step) { return text("1 step up to step ", step, " skipped"); }

/// A run that knows in which steps a spoilt sample was trained.
struct SpoiltRun : WatchedRun {
  using WatchedRun::WatchedRun;
  void after_step() override {
    ++steps;
    if (std::ranges::find(data->asked_for, data->spoilt) != data->asked_for.end())
      spoilt_steps.push_back(steps);
    WatchedRun::after_step();
  }
  std::int64_t steps = 0;
  std::vector<std::int64_t> spoilt_steps;
};

// In the data.
TEST(ASpoiltSample, IsNamedInItsOwnStepAndNeverReachesTheWeights) {
  RunConfig config = faulty_run();
  config.control.curvature = "off";
  config.train.control_interval = 1000;
  SpoiltRun run(config);
  for (std::uint64_t number = 0; number < 15; ++number) {
    run.start_over();
    run.notices.clear();
    run.steps = 0;
    run.spoilt_steps.clear();
    run.data->spoilt = run.parts.data.training_ids[draw(number, 0, 48)];
    const RunSummary summary = run.run();
    ASSERT_EQ(run.spoilt_steps.size(), 2u);
    for (const std::int64_t step : run.spoilt_steps)
      EXPECT_TRUE(run.noticed(skipped_at(step))) << testing::PrintToString(run.notices);
    EXPECT_EQ(summary.skipped_steps, 2) << "once an epoch";
    EXPECT_EQ(summary.rollbacks, 0);
    EXPECT_TRUE(run.is_finite());
    EXPECT_TRUE(run.noticed("training samples " + std::to_string(run.data->spoilt) + " give"))
        << testing::PrintToString(run.notices);
    EXPECT_TRUE(run.each_sample_once(2));
  }
}

TEST(ASpoiltSample, IsFoundWithinAnyBudget) {
  RunConfig config = faulty_run();
  config.model.name = "resnet18";
  config.model.width = 8;
  config.train.batch = 48;
  config.control.batch = "micro";
  const std::int64_t peak = WatchedRun(config).run().peak_bytes;
  config.device.budget = std::to_string(peak * 8 / 10);
  WatchedRun run(config);
  run.data->spoilt = run.parts.data.training_ids[7];
  const RunSummary summary = run.run();
  EXPECT_GT(run.parts.planned_pass, 0);
  EXPECT_LT(run.parts.planned_pass, 48);
  EXPECT_LE(summary.peak_bytes, summary.budget_bytes);
  EXPECT_TRUE(run.is_finite());
  EXPECT_TRUE(run.noticed("training samples " + std::to_string(run.data->spoilt) + " give"));
}

/// LeNet-5 whose logits are no numbers in one forward pass of training.
struct BrokenOnce {
  BrokenOnce() : network(digits_lenet()) {
    network.forward = [this, forward = network.forward](const at::Tensor& inputs) {
      const at::Tensor logits = forward(inputs);
      const bool broken = network.module->is_training() && --passes_left == 0;
      return broken ? logits * kNan : logits;
    };
  }
  Network network;
  std::int64_t passes_left = 0;
};

// In the loss.
TEST(ALossThatIsNoNumber, CostsOneStepAndNamesTheLayer) {
  BrokenOnce broken;
  RunConfig config = faulty_run();
  config.control.curvature = "off";
  config.train.control_interval = 1000;
  WatchedRun run(config, broken.network);
  for (std::uint64_t number = 0; number < 15; ++number) {
    run.start_over();
    run.notices.clear();
    const auto step = static_cast<std::int64_t>(1 + draw(number, 1, 12));
    broken.passes_left = step;
    const RunSummary summary = run.run();
    EXPECT_TRUE(run.noticed(skipped_at(step))) << testing::PrintToString(run.notices);
    EXPECT_EQ(summary.skipped_steps, 1);
    EXPECT_EQ(summary.steps, 12);
    EXPECT_TRUE(run.is_finite());
    EXPECT_TRUE(run.noticed("layer 'fc3'")) << testing::PrintToString(run.notices);
    EXPECT_TRUE(run.each_sample_once(2));
  }
}

/// A run in which weights break while a control interval is told.
struct PokedRun : WatchedRun {
  using WatchedRun::WatchedRun;
  void interval(const StepReport& report, const StepPlan& plan) override {
    WatchedRun::interval(report, plan);
    ++intervals;
    if (!poke || !poke(report.step)) return;
    const at::NoGradGuard no_grad;
    const auto named = parts.network.module->named_parameters();
    const auto& victim = named[draw(seed, static_cast<std::uint64_t>(intervals), named.size())];
    *victim.value().data_ptr<float>() = draw(seed, 5, 2) == 0 ? kNan : 1 / 0.0f;
    poked = victim.key();
    steps_since = 0;
  }
  void after_step() override {
    WatchedRun::after_step();
    ++steps_since;
  }
  void notice(const std::string& message) override {
    if (message.starts_with("rolled back to step")) latest = std::max(latest, steps_since);
    WatchedRun::notice(message);
  }
  std::function<bool(std::int64_t step)> poke;
  std::int64_t intervals = 0;
  std::uint64_t seed = 0;
  std::string poked;
  std::int64_t steps_since = 0;  // a weight broke
  std::int64_t latest = 0;       // steps from there to the way back
};

std::vector<std::byte> bytes_of(const WatchedRun& run) {
  std::vector<std::byte> bytes;
  for (const StateView& view : network_state(run.parts.network))
    bytes.insert(bytes.end(), view.bytes.begin(), view.bytes.end());
  return bytes;
}

// In the weights. What broke them is not part of the run: after the rollback it goes on as if
// nothing had been.
TEST(ABrokenWeight, IsNamedAndTheRunGoesBackToItsLastCheckpoint) {
  const ScratchFolder scratch;
  RunConfig config = faulty_run();
  config.run.checkpoint_every = 3;
  config.control.batch = "elastic";
  config.control.curvature_every = 1000;
  config.train.control_interval = 4;
  PokedRun run(config);
  const std::int64_t steps = run.run().steps;
  const std::vector<std::byte> clean = bytes_of(run);
  for (std::uint64_t number = 0; number < 20; ++number) {
    run.start_over();
    run.notices.clear();
    run.seed = number;
    const auto after_first_checkpoint = static_cast<std::uint64_t>(steps - 3);
    const auto step = static_cast<std::int64_t>(4 + draw(number, 6, after_first_checkpoint));
    bool done = false;
    run.poke = [&](std::int64_t now) { return now >= step && !std::exchange(done, true); };
    CheckpointStore store(scratch.path / std::to_string(number));
    const RunSummary summary = run.run(&store);
    EXPECT_EQ(summary.rollbacks, 1) << "run " << number << testing::PrintToString(run.notices);
    EXPECT_TRUE(run.noticed("back to step")) << number;
    EXPECT_TRUE(run.noticed(run.poked)) << testing::PrintToString(run.notices);
    EXPECT_EQ(bytes_of(run), clean) << "run " << number;
  }
  EXPECT_LE(run.latest, 1) << "steps between the fault and the way back";
}

/// A run whose weights all grow beyond what a loss can be computed with, and stay numbers.
struct BlownUpRun : WatchedRun {
  using WatchedRun::WatchedRun;
  void interval(const StepReport& report, const StepPlan& plan) override {
    WatchedRun::interval(report, plan);
    if (report.step < blow_up_at || std::exchange(blown_up, true)) return;
    const at::NoGradGuard no_grad;
    for (at::Tensor& weight : parts.network.module->parameters()) weight.mul_(1e15);
  }
  std::int64_t blow_up_at = 0;
  bool blown_up = false;
};

TEST(WeightsThatGiveNoFiniteLoss, TakeTheRunBackToItsLastCheckpoint) {
  const ScratchFolder scratch;
  RunConfig config = faulty_run();
  config.train.epochs = 12;
  config.run.checkpoint_every = 3;
  config.train.control_interval = 4;
  config.activations.keep = "compressed";
  BlownUpRun run(config);
  run.blow_up_at = 8;
  CheckpointStore store(scratch.path / "run");
  const RunSummary summary = run.run(&store);
  EXPECT_TRUE(run.blown_up);
  EXPECT_EQ(summary.rollbacks, 1) << testing::PrintToString(run.notices);
  EXPECT_TRUE(run.noticed("the weights have diverged")) << testing::PrintToString(run.notices);
  EXPECT_TRUE(run.noticed("lossless for")) << testing::PrintToString(run.notices);
  EXPECT_TRUE(run.is_finite());
}

TEST(ABrokenWeight, EndsARunWithoutCheckpoints) {
  PokedRun run(faulty_run());
  run.poke = [](std::int64_t step) { return step == 4; };
  try {
    run.run();
    FAIL() << "it went on";
  } catch (const NumericalFailure& error) {
    EXPECT_NE(std::string(error.what()).find(run.poked), std::string::npos) << error.what();
  }
}

TEST(ABrokenWeight, EndsARunAfterThreeRollbacksToOneCheckpoint) {
  const ScratchFolder scratch;
  RunConfig config = faulty_run();
  config.run.checkpoint_every = 4;
  PokedRun run(config);
  std::int64_t pokes = 0;
  run.poke = [&](std::int64_t step) { return step == 6 && ++pokes > 0; };
  CheckpointStore store(scratch.path);
  EXPECT_THROW(run.run(&store), NumericalFailure);
  EXPECT_EQ(pokes, 4);
}

TEST(ABrokenWeight, MayHappenAgainOnceThereIsAnotherCheckpoint) {
  const ScratchFolder scratch;
  RunConfig config = faulty_run();
  config.run.checkpoint_every = 2;
  PokedRun run(config);
  std::map<std::int64_t, int> pokes;
  run.poke = [&](std::int64_t step) { return step > 2 && step < 11 && ++pokes[step] <= 2; };
  CheckpointStore store(scratch.path);
  const RunSummary summary = run.run(&store);
  EXPECT_GE(summary.rollbacks, 6);
  EXPECT_EQ(summary.steps, 12);
  EXPECT_TRUE(run.is_finite());
}

/// LeNet-5 whose logits overflow for as long as its first layer computes in FP16, or for good.
struct OverflowingForward : WatchedRun {
  explicit OverflowingForward(const RunConfig& wanted)
      : WatchedRun(wanted, wrapped(digits_lenet())) {}

  Network wrapped(Network network) {
    network.forward = [this, forward = network.forward](const at::Tensor& inputs) {
      const at::Tensor logits = forward(inputs);
      return overflows && parts.network.module->is_training() && at::GradMode::is_enabled()
                 ? logits * kNan
                 : logits;
    };
    return network;
  }
  void plan(std::int64_t step, const StepPlan& next) override {
    WatchedRun::plan(step, next);
    overflows = for_good || next.layers[0].compute == Precision::Fp16;
  }
  bool overflows = false;
  bool for_good = false;
};

/// The paper's rule with every layer below tau_low: FP16 from the first decision on.
RunConfig all_fp16_run() {
  RunConfig config = faulty_run();
  config.control.policy = "paper";
  config.control.precision_rules.tau_low = config.control.precision_rules.tau_high = 1e30;
  config.control.curvature = "off";
  config.train.control_interval = 40;
  return config;
}

TEST(AForwardOverflow, LiftsEveryFp16LayerLongBeforeTheNextDecisionIsDue) {
  RunConfig config = all_fp16_run();
  config.train.epochs = 8;
  OverflowingForward run(config);
  const RunSummary summary = run.run();
  EXPECT_EQ(summary.status, "finished");
  EXPECT_EQ(summary.skipped_steps, 3) << testing::PrintToString(run.notices);
  EXPECT_EQ(summary.layers_fp16, 0);
  EXPECT_TRUE(run.is_finite());
}

TEST(AForwardOverflow, IsAnsweredAlikeWhenTheRunIsCutWhileStepsAreSkipped) {
  RunConfig config = all_fp16_run();
  config.train.control_interval = 2;
  OverflowingForward whole(config);
  whole.run();
  for (const std::int64_t cut : {3, 4, 5}) {
    const ScratchFolder scratch;
    CheckpointStore store(scratch.path);
    OverflowingForward first(config), second(config);
    std::int64_t steps = 0;
    const TrainingHooks cut_short{.sinks = {&first},
                                  .stop_requested = [&] { return ++steps == cut; }};
    TorchEngine cut_engine(first.config, first.parts), engine(second.config, second.parts);
    EXPECT_EQ(TrainingLoop(first.config, cut_engine, cut_short, &store).run().status, "stopped");
    const TrainingHooks go_on{.sinks = {&second}};
    TrainingLoop loop(second.config, engine, go_on, nullptr);
    loop.restore(*store.load_latest());
    EXPECT_EQ(loop.run().skipped_steps, 3) << cut;
    EXPECT_EQ(bytes_of(second), bytes_of(whole)) << cut;
  }
}

TEST(AFaultForGood, EndsTheRunOnceNoLayerCanBeLiftedAnyMore) {
  RunConfig config = faulty_run();
  config.control.curvature = "off";
  config.train.control_interval = 1000;
  config.train.epochs = 20;
  OverflowingForward run(config);
  run.for_good = true;
  EXPECT_THROW(run.run(), NumericalFailure);
  for (const LayerPlan& layer : run.ran.back().layers) EXPECT_EQ(layer.compute, Precision::Fp32);
  EXPECT_LT(run.reports.back().step, 40);
}

TEST(NonfiniteTensors, AreFoundWithoutMemoryToSpeakOf) {
  Network network;
  network.module = std::make_shared<torch::nn::LinearImpl>(1024, 1024);
  MemoryGauge gauge{c10::Device(c10::kCPU)};
  gauge.reset_peak();
  const std::int64_t before = gauge.used();
  EXPECT_TRUE(nonfinite_tensors(network).empty());
  EXPECT_LT(gauge.read().peak - before, 1024);
  const at::NoGradGuard no_grad;
  for (const float broken : {kNan, 1 / 0.0f, -1 / 0.0f}) {
    at::Tensor bias = network.module->named_parameters()["bias"];
    bias[17] = broken;
    EXPECT_EQ(nonfinite_tensors(network), std::vector<std::string>{"bias"});
    bias.zero_();
  }
}

// What a GPU without BF16 units trains like: FP16 between layers, under a scale of the loss.
TEST(ADeviceWithoutBf16, TrainsInFp16UnderALossScale) {
  RunConfig config = digits_run();
  config.train.epochs = 8;
  config.control.batch = "off";
  config = resolved(config);
  RunParts parts(config, digits_lenet(), DeviceFormats{.bf16 = false});
  EXPECT_TRUE(parts.method.loss_scaling);
  Recorder recorder;
  const TrainingHooks hooks{.sinks = {&recorder}};
  TorchEngine engine(config, parts);
  const RunSummary summary = TrainingLoop(config, engine, hooks, nullptr).run();
  EXPECT_EQ(summary.layers_bf16, 0);
  EXPECT_GT(recorder.reports.back().loss_scale, 1);
  EXPECT_LT(recorder.reports.back().loss, 0.8 * recorder.reports.front().loss);
  EXPECT_FALSE(recorder.noticed("guard")) << "the scale finds its place without lifting a layer";
  EXPECT_FALSE(recorder.noticed("not finite")) << "what it skips on the way is expected";
}

TEST(ADivergedRun, EndsWithADiagnosisWhateverIsProbed) {
  for (const char* mode : {"fisher_gram", "hessian"}) {
    RunConfig config = faulty_run();
    config.train.lr = 1e8;
    config.train.epochs = 20;
    config.control.curvature = mode;
    config.control.curvature_every = 1;
    WatchedRun run(config);
    EXPECT_THROW(run.run(), NumericalFailure) << mode;
  }
}

}  // namespace
}  // namespace triaccel
