#include "triaccel/trainer/loop/memory_census.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/trainer/watched_run.h"
#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"

namespace triaccel {
namespace {

RunConfig config_of(const std::string& model, const std::string& method) {
  RunConfig config = small_run();
  config.model.name = model;
  if (model != "lenet5") config.model.width = 8;
  config.train.method = method;
  config.train.batch = 48;
  config.train.steps = 3;
  if (method == "triaccel") {
    config.control.batch = BatchMode::Off;
    config.control.curvature = CurvatureSource::Off;
    config.control.precision = LayerPrecision::Bf16;
  }
  return config;
}

MemoryCensus census_of(const RunConfig& config) {
  RunParts parts(without_budget(config));
  return take_memory_census(parts);
}

RunConfig planned(const RunConfig& config, const MemoryPlan& plan) {
  RunConfig as_planned = with_memory_means(config, plan);
  as_planned.train.pass_size = plan.pass_size;
  return as_planned;
}

/// Most bytes of a run's steps.
std::int64_t measured_peak(const RunConfig& config) {
  const std::int64_t before = read_cpu_memory().used;
  return WatchedRun(config).run().peak_bytes - before;
}

class MemoryCensusOf : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(MemoryCensusOf, PredictsThePeakOfRuns) {
  const RunConfig config = config_of(GetParam().first, GetParam().second);
  RunParts parts(without_budget(config));
  const MemoryCensus census = take_memory_census(parts);
  const std::vector<MemoryPlan> plans = memory_plans(census.costs, census.request);
  for (const std::int64_t pass : {48, 16, 6})
    for (const bool quantized : {false, true}) {
      const auto plan = std::ranges::find_if(plans, [&](const MemoryPlan& one) {
        return one.pass.activations == ActivationFormat::Raw && one.pass_size == pass &&
               one.state_storage == (quantized ? StateStorage::EightBits : StateStorage::AsAsked);
      });
      ASSERT_NE(plan, plans.end());
      const auto predicted = measured_plan(parts, *plan, /*profile=*/true);
      ASSERT_TRUE(predicted);
      const auto peak = static_cast<double>(measured_peak(planned(config, *plan)));
      EXPECT_NEAR(static_cast<double>(plan->bytes()), peak, 0.1 * peak) << "from smaller passes";
      EXPECT_NEAR(static_cast<double>(predicted->bytes()), peak, 0.03 * peak)
          << pass << " samples a pass, state in " << (quantized ? 8 : 32) << " bits";
    }
}

INSTANTIATE_TEST_SUITE_P(Runs, MemoryCensusOf,
                         testing::Values(std::pair{"lenet5", "fp32"}, std::pair{"resnet18", "fp32"},
                                         std::pair{"resnet18", "triaccel"}));

TEST(MemoryCensus, LeavesOpenWhatIsAtItsDefault) {
  RunConfig config = config_of("lenet5", "fp32");
  config.train.optimizer_state = StateFormat::Fp8;
  config.activations.keep = "lossless";
  const MemoryCensus census = census_of(config);
  EXPECT_FALSE(census.request.may_quantize_state);
  for (const PassCost& pass : census.costs.passes)
    EXPECT_EQ(pass.activations, ActivationFormat::Lossless);
}

TEST(MemoryCensus, TakesOptimizersWhoseStateIsSmallAnyway) {
  RunConfig config = config_of("lenet5", "fp32");
  config.train.optimizer = OptimizerKind::AdaLomo;
  const MemoryCensus census = census_of(config);
  EXPECT_FALSE(census.request.may_quantize_state);
  EXPECT_LT(census.costs.state, census.costs.weights / 10);
  for (const MemoryPlan& plan : memory_plans(census.costs, census.request))
    EXPECT_EQ(plan.state_storage, StateStorage::AsAsked);
}

// Of small passes, whatever was asked for: a profile takes more samples the larger the passes are.
TEST(MemoryCensus, MeasuresProfilesWithTheSamplesThatPassesHave) {
  RunConfig config = config_of("resnet18", "triaccel");
  config.data.image_size = 64;
  RunParts parts(without_budget(config));
  const MemoryPlan plan{.pass = {.activations = ActivationFormat::Compressed}, .pass_size = 2};
  const auto bytes_from = [&](std::int64_t asked) {
    parts.plan.micro_batch_size = asked;
    const auto measured = measured_plan(parts, plan, /*profile=*/true);
    EXPECT_EQ(parts.plan.micro_batch_size, asked);
    return measured ? measured->bytes() : 0;
  };
  const std::int64_t small = bytes_from(2), large = bytes_from(48);
  EXPECT_GT(small, 0);
  EXPECT_EQ(large, small);
}

TEST(MemoryCensus, HasNoOtherMemoryForStateOnACpu) {
  EXPECT_FALSE(census_of(config_of("lenet5", "fp32")).request.may_move_state);
}

TEST(MemoryCensus, IsForBackpropagation) {
  RunConfig config = small_run();
  config.train.method = "zo";
  EXPECT_THROW((void)census_of(config), UsageError);
}

}  // namespace
}  // namespace triaccel
