#include "triaccel/trainer/loop/training.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "tests/trainer/small_run.h"
#include "triaccel/base/error.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/telemetry/records/run_record.h"
#include "triaccel/telemetry/records/summary.h"
#include "triaccel/trainer/loop/network_state.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/measure/format_support.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

/// Of a slim LeNet-5: what it learns is not the question.
RunConfig slim_run() {
  RunConfig config = small_run();
  config.model.width = 2;
  return config;
}

Network slim_lenet() { return make_model({.name = "lenet5", .width = 2}); }

TEST(Train, CountsEverySampleOnceAnEpoch) {
  Recorder recorder;
  const RunSummary summary = train(slim_lenet(), slim_run(), {.sinks = {&recorder}});
  EXPECT_EQ(summary.samples, 1024);
  EXPECT_EQ(summary.steps, 16);
  EXPECT_EQ(recorder.reports.size(), 4u);
  EXPECT_EQ(recorder.evaluations.size(), 2u);
  std::int64_t samples = 0;
  for (const StepReport& report : recorder.reports) samples += report.interval_samples;
  EXPECT_EQ(samples, 1024);
  EXPECT_EQ(summary.model, "lenet5");
}

// Statistics of batch norm over a few samples upset a run.
TEST(Train, SharesTheLastSamplesOfAnEpochEvenly) {
  struct Epoch {
    std::int64_t samples, batch;
    std::vector<std::int64_t> steps;
  };
  for (const auto& [samples, batch, steps] :
       {Epoch{136, 64, {64, 36, 36}}, Epoch{160, 64, {64, 64, 32}}, Epoch{129, 64, {64, 33, 32}},
        Epoch{5, 2, {2, 3}}, Epoch{7, 3, {3, 2, 2}}, Epoch{6, 64, {6}}}) {
    Recorder recorder;
    RunConfig config = plain_digits_run();
    config.data.train_samples = samples;
    config.train.batch = batch;
    config.train.epochs = 1;
    config.train.control_interval = 1;
    train(make_model({.name = "lenet5", .width = 2, .input_channels = 1, .image_size = 28}), config,
          {.sinks = {&recorder}});
    std::vector<std::int64_t> taken;
    for (const StepReport& report : recorder.reports) taken.push_back(report.interval_samples);
    EXPECT_EQ(taken, steps) << samples << " samples, batch " << batch;
  }
}

TEST(Train, TakesAFractionOfAnEpoch) {
  RunConfig config = slim_run();
  config.train.epochs = 0.3;
  EXPECT_EQ(train(slim_lenet(), config).samples, 154);
  config.train.steps = 3;
  EXPECT_EQ(train(slim_lenet(), config).samples, 192);
}

TEST(Train, TakesNoStepOfASingleSample) {  // which batch norm would refuse
  RunConfig config = small_run();
  config.data.train_samples = 65;
  const RunSummary summary = train(make_model({.name = "resnet18", .width = 8}), config);
  EXPECT_EQ(summary.steps, 4);
  EXPECT_EQ(summary.samples, 130);
}

TEST(Train, LeavesNoBudgetBehind) {
  RunConfig config = slim_run();
  config.train.steps = 1;
  config.device.budget = "60MiB";
  train(slim_lenet(), config);
  EXPECT_NO_THROW(at::empty({100 << 20}, at::kByte));
}

TEST(Train, TakesSmallerPassesWhereABudgetAsksForThem) {
  RunConfig config = digits_run();
  config.model.name = "resnet18";
  config.train.method = "fp32";
  config.train.batch = 96;
  config.train.epochs = 1;
  config.data.train_samples = 192;
  config.device.budget = "14MiB";
  Recorder recorder;
  torch::manual_seed(1);
  const Network network = make_model(
      {.name = "resnet18", .stem = "cifar", .width = 8, .input_channels = 1, .image_size = 28});
  const RunSummary summary = train(network, config, {.sinks = {&recorder}});
  EXPECT_EQ(summary.memory_retries, 0);
  ASSERT_FALSE(recorder.notices.empty());
  EXPECT_NE(recorder.notices[0].find("samples per forward pass"), std::string::npos);
  EXPECT_LE(summary.peak_bytes, summary.budget_bytes);
  EXPECT_EQ(summary.samples, 192);
  EXPECT_EQ(summary.batch_final, 96);
}

TEST(Train, GivesUpWhenOneSampleDoesNotFit) {
  RunConfig config = small_run();
  config.device.budget = "16MiB";
  EXPECT_THROW(train(make_model({.name = "lenet5"}), config), OutOfMemory);
}

TEST(Train, ReportsNumericalFailure) {
  RunConfig config = slim_run();
  config.train.lr = 1e8;
  config.train.epochs = 20;
  EXPECT_THROW(train(slim_lenet(), config), NumericalFailure);
}

TEST(Train, StopsEarlyWhenNothingImproves) {
  RunConfig config = slim_run();
  config.train.lr = 1e-12;
  config.train.weight_decay = 0;
  config.train.epochs = 50;
  config.train.patience = 2;
  config.data.val_split = 100;
  const RunSummary summary = train(slim_lenet(), config);
  EXPECT_EQ(summary.status, "finished");
  EXPECT_NE(summary.reason.find("early stopping"), std::string::npos) << summary.reason;
  EXPECT_LT(summary.epochs, 50);
}

TEST(Train, GoesOnAfterStoppingEarlyOnlyToALaterEnd) {
  RunConfig config = slim_run();
  config.train.lr = 1e-12;
  config.train.weight_decay = 0;
  config.train.epochs = 20;
  config.train.patience = 1;
  const ScratchFolder folder;
  const RunSummary stopped = start_run(config, folder.path / "run");
  ASSERT_LT(stopped.epochs, 20);
  EXPECT_THROW(resume_run(folder.path / "run", {}, RunLength{.epochs = 20}), UsageError);
  EXPECT_GT(resume_run(folder.path / "run", {}, RunLength{.epochs = 21}).epochs, stopped.epochs);
}

TEST(Train, CallsBestWhatWasBestOnTheHeldOutSamplesUpToTheLastEpoch) {
  RunConfig config = slim_run();
  config.data.val_split = 100;
  Recorder recorder;
  const RunSummary summary = train(slim_lenet(), config, {.sinks = {&recorder}});
  ASSERT_EQ(recorder.evaluations.size(), 3u);
  double best = 0;
  for (const std::size_t i : {0u, 1u}) {
    EXPECT_EQ(recorder.evaluations[i].split, "validation");
    best = std::max(best, 100 * recorder.evaluations[i].accuracy);
  }
  EXPECT_EQ(recorder.evaluations[1].step, summary.steps);
  EXPECT_EQ(recorder.evaluations[2].split, "test");
  EXPECT_DOUBLE_EQ(summary.best_accuracy, best);
  EXPECT_DOUBLE_EQ(summary.accuracy, 100 * recorder.evaluations[2].accuracy);
}

TEST(Train, TakesALargestBatchBelowTheUsualSmallest) {
  RunConfig config = digits_run();
  config.train.batch = config.control.batch_rules.largest = 4;
  config.train.steps = 3;
  EXPECT_EQ(train(make_model({.name = "lenet5", .input_channels = 1, .image_size = 28}), config)
                .batch_largest,
            4);
}

TEST(StartRun, WritesAllThatItPromises) {
  const ScratchFolder scratch;
  const fs::path run = scratch.path / "run";
  const RunSummary summary = start_run(slim_run(), run);
  for (const char* name : {"config.toml", "metrics.jsonl", "metrics.csv", "summary.json",
                           "report.html", "checkpoints/step-16/manifest.json"})
    EXPECT_TRUE(fs::exists(run / name)) << name;
  EXPECT_EQ(read_summary(run / kSummaryFile).accuracy, summary.accuracy);
  EXPECT_TRUE(is_finished(run));
  EXPECT_NEAR(100 * evaluate_run(run).accuracy, summary.accuracy, 1e-9);
  EXPECT_THROW(start_run(slim_run(), run), UsageError);
  EXPECT_EQ(resume_run(run).steps, summary.steps) << "a finished run stays as it is";
}

TEST(ResumeRun, StartsOverWhenThereIsNoCheckpoint) {
  const ScratchFolder scratch;
  write_run_config(scratch.path, resolved(slim_run()));
  EXPECT_EQ(resume_run(scratch.path).steps, 16);
}

TEST(StartRun, LeavesNoRunBehindWhenItsDataIsMissing) {
  const ScratchFolder scratch;
  RunConfig config = slim_run();
  config.data.name = "cifar10";
  config.data.root = scratch.path / "nothing";
  EXPECT_THROW(start_run(config, scratch.path / "run"), DataError);
  EXPECT_FALSE(holds_run(scratch.path / "run"));
}

TEST(ResumeRun, DoesNotNeedTheWeightsItStartedFromAnyMore) {
  const ScratchFolder scratch;
  start_run(slim_run(), scratch.path / "first");
  RunConfig config = slim_run();
  config.model.init_from = scratch.path / "first/checkpoints/step-16/weights.safetensors";
  int steps = 0;
  start_run(config, scratch.path / "run", {.stop_requested = [&] { return ++steps == 5; }});
  fs::remove_all(scratch.path / "first");
  EXPECT_EQ(resume_run(scratch.path / "run").steps, 16);
}

TEST(ResumeRun, EvaluatesAFinishedStateUnderItsPlan) {
  RunConfig config = digits_run();
  config.control.precision = "bf16";
  const ScratchFolder scratch;
  const RunSummary first = start_run(config, scratch.path);
  fs::remove(scratch.path / kSummaryFile);  // as if cut after the last checkpoint
  EXPECT_EQ(resume_run(scratch.path).loss, first.loss);
}

TEST(ResumeRun, RefusesACheckpointOfAnotherConfiguration) {
  const ScratchFolder scratch;
  int steps = 0;
  start_run(slim_run(), scratch.path, {.stop_requested = [&] { return ++steps == 5; }});
  RunConfig other = resolved(slim_run());
  other.train.lr = 0.5;
  write_run_config(scratch.path, other);
  EXPECT_THROW(resume_run(scratch.path), StorageError);
}

class ResumeExactly : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(ResumeExactly, GivesTheSameBytesAsNoInterruption) {
  RunConfig config = digits_run();
  std::tie(config.train.method, config.train.optimizer) = GetParam();
  config.model.name = "efficientnet-b0";  // batch norm, dropout and stochastic depth
  config.model.width = 8;
  config.data.image_size = 16;
  config.data.train_samples = 24;
  config.train.batch = 8;
  config.train.control_interval = 3;
  config.control.batch = "off";
  config.train.ema = 0.9;
  config.train.clip = 1;
  const ScratchFolder scratch;
  start_run(config, scratch.path / "whole");
  for (const int stop_after : {2, 5}) {
    const fs::path run = scratch.path / std::to_string(stop_after);
    int steps = 0;
    const auto stop = [&] { return ++steps == stop_after; };
    EXPECT_EQ(start_run(config, run, {.stop_requested = stop}).status, "stopped");
    EXPECT_EQ(resume_run(run).status, "finished");
    EXPECT_EQ(final_weights(run), final_weights(scratch.path / "whole")) << stop_after;
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, ResumeExactly,
                         testing::Values(std::tuple("fp32", "sgd"), std::tuple("fp32", "adamw"),
                                         std::tuple("amp", "sgd"), std::tuple("triaccel", "adamw"),
                                         std::tuple("fp32", "adalomo"),
                                         std::tuple("triaccel", "apollo-mini")));

/// What reports of a run tell of codes, in their order.
std::vector<CompressionNoise> noise_of(const Recorder& run) {
  std::vector<CompressionNoise> told;
  for (const StepReport& report : run.reports)
    if (report.compression_noise) told.push_back(*report.compression_noise);
  return told;
}

class ResumeExactlyWithStateInEightBits : public testing::TestWithParam<std::string> {};

TEST_P(ResumeExactlyWithStateInEightBits, GivesTheSameBytesAsNoInterruption) {
  RunConfig config = digits_run();
  config.train.optimizer = GetParam();
  config.train.optimizer_state = "fp8";
  config.model.memory_format = "channels-last";  // a checkpoint is in another order
  config.device.threads = 1;
  const ScratchFolder scratch;
  const RunSummary whole = start_run(config, scratch.path / "whole");
  for (const int stop_after : {2, 5}) {
    const fs::path run = scratch.path / std::to_string(stop_after);
    int steps = 0;
    start_run(config, run, {.stop_requested = [&] { return ++steps == stop_after; }});
    EXPECT_EQ(resume_run(run).loss, whole.loss);
    EXPECT_EQ(final_weights(run), final_weights(scratch.path / "whole")) << stop_after;
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ResumeExactlyWithStateInEightBits,
                         testing::Values("sgd", "adamw"));

/// Plain training on digits until they are learnt; the same run once for all tests.
const RunSummary& learnt_digits(const std::string& optimizer, const std::string& state = "fp32") {
  static std::map<std::pair<std::string, std::string>, RunSummary> trained;
  RunSummary& summary = trained[{optimizer, state}];
  if (summary.steps > 0) return summary;
  RunConfig config = plain_digits_run();
  config.train.optimizer = optimizer;
  config.train.optimizer_state = state;
  config.train.epochs = 24;
  config.device.threads = 1;
  const ScratchFolder scratch;
  return summary = start_run(config, scratch.path);
}

class StateInEightBits : public testing::TestWithParam<std::string> {};

TEST_P(StateInEightBits, LearnsAsWellInLessMemory) {
  const RunSummary exact = learnt_digits(GetParam()), coded = learnt_digits(GetParam(), "fp8");
  EXPECT_LT(exact.loss, 0.5) << "so there was something to learn";
  EXPECT_NEAR(coded.loss, exact.loss, 0.05);
  EXPECT_NE(coded.loss, exact.loss) << "so the state was coded";
  EXPECT_LT(coded.peak_bytes, exact.peak_bytes);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, StateInEightBits, testing::Values("sgd", "adamw"));

class CompactState : public testing::TestWithParam<std::string> {};

TEST_P(CompactState, LearnsInLessMemoryThanAdamW) {
  const RunSummary adamw = learnt_digits("adamw"), compact = learnt_digits(GetParam());
  EXPECT_LT(compact.loss, 0.5);
  EXPECT_LT(compact.peak_bytes, adamw.peak_bytes);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, CompactState, testing::Values("adalomo", "apollo-mini"));

TEST(ResumeExactly, AlsoWithCompressedActivations) {
  RunConfig config = digits_run();
  config.model.name = "resnet18";
  config.model.stem = "cifar";
  config.model.width = 8;
  config.data.image_size = 16;
  config.data.train_samples = 48;
  config.train.batch = 12;
  config.train.control_interval = 2;
  config.activations.keep = "compressed";
  config.activations.ratio = 20;  // codes whose noise is answered
  config.activations.profile_every = 3;
  config.device.threads = 1;
  const ScratchFolder scratch;
  Recorder whole;
  RunSummary summary;
  // Whether bit widths by layer pay depends on rounding, which differs between CPUs.
  const auto chose_by_layer = [&] {
    return whole.noticed("bit widths by the noise of each layer");
  };
  for (config.train.seed = 1; config.train.seed <= 8; ++config.train.seed) {
    fs::remove_all(scratch.path / "whole");
    whole = {};
    summary = start_run(config, scratch.path / "whole", {.sinks = {&whole}});
    if (chose_by_layer()) break;
  }
  EXPECT_TRUE(whole.noticed("to the mini-batch's noise"));
  EXPECT_TRUE(chose_by_layer());
  EXPECT_GE(noise_of(whole).size(), 2u);
  EXPECT_EQ(summary.compression_noise_by_layer, noise_of(whole).back().shares());
  // Between looks, inside an interval, and after a look whose noise no tick has seen yet.
  for (const int last : {2, 5, 6}) {
    int steps = 0;
    const auto stop = [&] { return ++steps == last; };
    const fs::path run = scratch.path / std::to_string(last);
    EXPECT_EQ(start_run(config, run, {.stop_requested = stop}).status, "stopped");
    EXPECT_EQ(resume_run(run).status, "finished");
    EXPECT_EQ(final_weights(run), final_weights(scratch.path / "whole")) << last;
    const RunRecord told = read_run_record(run);
    EXPECT_EQ(told.summary->compression_noise_by_layer, summary.compression_noise_by_layer) << last;
    std::vector<CompressionNoise> noise;
    for (const IntervalRecord& interval : told.metrics.intervals)
      if (interval.report.compression_noise) noise.push_back(*interval.report.compression_noise);
    EXPECT_EQ(noise, noise_of(whole)) << last;
  }
}

TEST(LoadWeights, StartsFromAnotherRunsWeights) {
  const ScratchFolder scratch;
  start_run(slim_run(), scratch.path / "first");
  Network network = slim_lenet();
  load_weights(network, scratch.path / "first/checkpoints/step-16/weights.safetensors");
  const auto trained = final_weights(scratch.path / "first");
  std::size_t bytes = 0;
  for (const StateView& view : network_state(network)) bytes += view.bytes.size();
  EXPECT_EQ(bytes, trained.size());
  Network other = make_model({.name = "lenet5", .width = 2, .classes = 7});
  EXPECT_THROW(load_weights(other, scratch.path / "first/checkpoints/step-16/weights.safetensors"),
               DataError);
}

// Every cell of the table is filled, none throws.
TEST(ProbeFormats, SaysNativeOrEmulatedForEveryOperationAndFormat) {
  const auto table = probe_formats(c10::Device(c10::kCPU));
  EXPECT_EQ(table.size(), 9u);
  for (const FormatSupport& cell : table) {
    EXPECT_TRUE(cell.support == "native" || cell.support == "emulated") << cell.operation;
    EXPECT_EQ(cell.support == "native", cell.why.empty()) << cell.operation;
    if (cell.precision == Precision::Fp32) {
      EXPECT_EQ(cell.support, "native");
    }
  }
}

}  // namespace
}  // namespace triaccel
