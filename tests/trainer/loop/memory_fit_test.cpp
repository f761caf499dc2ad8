#include "triaccel/trainer/loop/run_parts.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/trainer/watched_run.h"
#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/trainer/loop/memory_census.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel {
namespace {

/// Its weights and states are most of its memory.
RunConfig wide_run(std::int64_t budget_bytes) {
  RunConfig config = digits_run();
  config.model.name = "resnet18";
  config.model.width = 32;
  config.data.train_samples = 64;
  config.train.batch = 16;
  config.train.epochs = 1;
  config.control.batch = BatchMode::Micro;
  config.control.curvature = CurvatureSource::Off;
  if (budget_bytes > 0) config.device.budget = std::to_string(budget_bytes);
  return config;
}

/// Least bytes with the optimizer's state in FP32, and with all means.
std::pair<std::int64_t, std::int64_t> measured_least_bytes() {
  RunParts parts(without_budget(wide_run(0)));
  const MemoryCensus census = take_memory_census(parts);
  MemoryRequest as_asked = census.request;
  as_asked.may_quantize_state = false;
  return {least_memory(memory_plans(census.costs, as_asked)).bytes(),
          least_memory(memory_plans(census.costs, census.request)).bytes()};
}

const std::pair<std::int64_t, std::int64_t>& least_bytes() {
  static const auto found = measured_least_bytes();
  return found;
}

TEST(MemoryFit, ChangesNothingWhereTheRunFits) {
  const RunParts parts(resolved(wide_run(4 * least_bytes().first)));
  EXPECT_EQ(parts.config.train.optimizer_state, StateFormat::Fp32);
  EXPECT_TRUE(parts.data.notices.empty());
}

TEST(MemoryFit, TakesStateIn8BitsWhereNothingElseFits) {
  const auto [as_asked, least] = least_bytes();
  ASSERT_GT(as_asked, least);
  const RunConfig config = wide_run((as_asked + least) / 2);
  {
    const RunParts parts(resolved(config));
    EXPECT_EQ(parts.config.train.optimizer_state, StateFormat::Fp8);
    ASSERT_EQ(parts.data.notices.size(), 1u);
    EXPECT_NE(parts.data.notices[0].find("optimizer state in 8 bits"), std::string::npos);
  }
  WatchedRun run(config);
  const RunSummary summary = run.run();
  EXPECT_EQ(summary.status, "finished");
  EXPECT_LE(summary.peak_bytes, (as_asked + least) / 2);
  EXPECT_TRUE(run.each_sample_once(1));
}

// A probe of fewer samples, where memory is short, is still part of the prediction.
TEST(MemoryFit, PredictsWhatCurvatureProbesTake) {
  for (const double times : {1.05, 2.5}) {
    RunConfig config =
        wide_run(static_cast<std::int64_t>(times * static_cast<double>(least_bytes().first)));
    config.control.curvature = CurvatureSource::FisherGram;
    config.control.curvature_every = 2;
    WatchedRun run(config);
    const RunSummary summary = run.run();
    EXPECT_NEAR(
        static_cast<double>(summary.predicted_bytes) / static_cast<double>(summary.peak_bytes), 1,
        0.03)
        << times << " times the least bytes";
  }
}

TEST(MemoryFit, KeepsEveryBitWhereLossyMeansAreForbidden) {
  const auto [as_asked, least] = least_bytes();
  RunConfig config = wide_run((as_asked + least) / 2);
  config.device.lossy = LossyMeans::Never;
  EXPECT_THROW((void)WatchedRun(config).run(), OutOfMemory);
}

// Batch norm over smaller passes would change the result.
TEST(MemoryFit, RecomputesSegmentsWhereNoOtherExactMeansFits) {
  RunConfig config = wide_run(0);
  config.model.name = "efficientnet-b0";
  config.model.width = 16;
  config.train.batch = 32;
  config.device.lossy = LossyMeans::Never;
  const ScratchFolder scratch;
  const auto weights_after = [&](const char* name, std::int64_t& peak) {
    peak = start_run(config, scratch.path / name).peak_bytes;
    return final_weights(scratch.path / name);
  };
  std::int64_t saved_peak = 0, peak = 0;
  const auto saved = weights_after("saved", saved_peak);
  const std::int64_t budget = saved_peak * 3 / 4;
  config.device.budget = std::to_string(budget);
  EXPECT_EQ(weights_after("recomputed", peak), saved);
  EXPECT_LE(peak, budget);
  EXPECT_EQ(read_run_config(scratch.path / "saved").activations.recompute_segments, 0);
  EXPECT_GT(read_run_config(scratch.path / "recomputed").activations.recompute_segments, 0);
}

TEST(MemoryFit, KeepsWhatWasAskedFor) {
  RunConfig config = wide_run(std::int64_t{1} << 32);
  config.activations.recompute_segments = 1;
  EXPECT_EQ(RunParts(resolved(config)).config.activations.recompute_segments, 1);
  config = wide_run(std::int64_t{1} << 32);
  config.train.pass_size = 10 * config.train.batch;
  const RunParts large(resolved(config));
  EXPECT_EQ(large.planned_pass, large.plan.micro_batch_size);
  EXPECT_EQ(large.planned_pass, large.plan.batch_size);
}

TEST(MemoryFit, IsKeptByARunThatIsResumedOrEvaluated) {
  RunConfig config = wide_run((least_bytes().first + least_bytes().second) / 2);
  config.train.epochs = 2;
  const ScratchFolder scratch;
  const std::filesystem::path whole = scratch.path / "whole", parts = scratch.path / "parts";
  (void)start_run(config, whole);
  const RunConfig chosen = read_run_config(whole);
  EXPECT_EQ(chosen.train.optimizer_state, StateFormat::Fp8);
  EXPECT_GT(chosen.train.pass_size, 0);
  EXPECT_NO_THROW((void)evaluate_run(whole));
  // The same choices, so that the timings of another start do not matter.
  int steps = 0;
  (void)start_run(chosen, parts, {.stop_requested = [&] { return ++steps == 3; }});
  EXPECT_EQ(resume_run(parts).status, "finished");
  EXPECT_EQ(final_weights(parts), final_weights(whole));
}

TEST(MemoryFit, NamesTheLeastBudgetAndWhatItTakes) {
  const std::int64_t least = least_bytes().second;
  try {
    WatchedRun(wide_run(least * 4 / 5)).run();
    FAIL() << "trains in four fifths of what it needs";
  } catch (const OutOfMemory& error) {
    const std::string said = error.what();
    EXPECT_NE(said.find("is too small: the least is "), std::string::npos) << said;
    EXPECT_NE(said.find("optimizer state in 8 bits"), std::string::npos) << said;
  }
}

// Never "8 MiB is too small: the least is 8 MiB".
TEST(MemoryFit, NamesALeastBudgetAboveTheOneThatFailed) {
  const auto least = static_cast<double>(least_bytes().second);
  bool trained = false;
  for (const double share : {0.94, 1.0, 1.03, 1.06}) {
    const auto budget = static_cast<std::int64_t>(share * least);
    try {
      const RunParts parts(resolved(wide_run(budget)));
      trained = true;
    } catch (const OutOfMemory& error) {
      const std::string said = error.what(), marker = "the least is ";
      EXPECT_FALSE(trained) << "a smaller budget was enough: " << said;
      const std::size_t at = said.find(marker);
      ASSERT_NE(at, std::string::npos) << said;
      const std::string named =
          said.substr(at + marker.size(), said.find(',', at) - at - marker.size());
      EXPECT_GT(parse_byte_size(named, "least"), budget) << said;
    }
  }
  EXPECT_TRUE(trained);
}

}  // namespace
}  // namespace triaccel
