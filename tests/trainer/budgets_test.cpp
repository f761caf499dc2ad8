#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainer/watched_run.h"
#include "triaccel/base/error.h"
#include "triaccel/base/random.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel {
namespace {

struct BudgetCase {
  std::string model;
  std::string batch;  // how it follows the memory
};

/// Empty where the budget is too small to train at all; 0: none.
std::optional<RunSummary> trained_within(const BudgetCase& test, std::int64_t budget_bytes) {
  RunConfig config = digits_run();
  config.model.name = test.model;
  config.model.width = test.model == "lenet5" ? 0 : 4;
  config.data.image_size = 16;
  config.train.batch = 32;
  config.control.batch = test.batch;
  if (budget_bytes > 0) config.device.budget = std::to_string(budget_bytes);
  try {
    WatchedRun run(config);
    const RunSummary summary = run.run();
    EXPECT_TRUE(run.each_sample_once(2)) << "in " << budget_bytes;
    EXPECT_EQ(summary.status, "finished");
    if (budget_bytes > 0) {
      EXPECT_LE(summary.peak_bytes, budget_bytes);
    }
    return summary;
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("is too small"), std::string::npos);
    return {};
  }
}

class Budgets : public testing::TestWithParam<BudgetCase> {};

// From the smallest that can be trained in at all up to more than is ever used.
TEST_P(Budgets, AreKeptAndEverySampleIsTrainedOnceAnEpoch) {
  const std::optional<RunSummary> unlimited = trained_within(GetParam(), 0);
  ASSERT_TRUE(unlimited);
  const auto used = static_cast<double>(unlimited->peak_bytes);
  std::int64_t too_small = read_cpu_memory().used + 1, enough = unlimited->peak_bytes;
  while (enough - too_small > enough / 25) {
    const std::int64_t middle = (too_small + enough) / 2;
    (trained_within(GetParam(), middle) ? enough : too_small) = middle;
  }
  EXPECT_LT(static_cast<double>(enough), 0.8 * used);
  constexpr int kBudgets = 12;
  const double factor = std::pow(1.1 * used / static_cast<double>(enough), 1.0 / (kBudgets - 1));
  for (int i = 0; i < kBudgets; ++i) {
    const double budget = static_cast<double>(enough) * std::pow(factor, i);
    const auto summary = trained_within(GetParam(), static_cast<std::int64_t>(budget));
    ASSERT_TRUE(summary) << "budget " << i << " of " << budget << " bytes";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Budgets,
                         testing::Values(BudgetCase{"lenet5", "micro"},
                                         BudgetCase{"resnet18", "elastic"}));

/// A neighbour that takes and gives memory between the steps of a run, by a random trace.
struct CrowdedRun : WatchedRun {
  CrowdedRun(const RunConfig& wanted, std::uint64_t number) : WatchedRun(wanted), seed(number) {}

  void interval(const StepReport& report, const StepPlan& plan) override {
    over_the_cap |= report.memory.peak > report.memory.limit;
    batches.push_back(plan.batch_size);
    WatchedRun::interval(report, plan);
    if (report.step > last_change || report.step % 6 != 0) return;
    change(random_words(seed, static_cast<std::uint64_t>(report.step), 7));
  }

  /// Takes up to two thirds of the room, half of the time as a tenant of the same allocator, half
  /// of the time by lowering the limit.
  void change(const RandomWords& random) {
    tenant = at::Tensor();
    parts.on.gauge.set_limit(parts.on.budget_bytes);
    const auto room = static_cast<double>(parts.on.budget_bytes - parts.on.gauge.used());
    const auto bytes = static_cast<std::int64_t>(room * random.words[1] / 0x1p32 * 2 / 3);
    if (random.words[0] % 2 == 0)
      tenant = at::empty({bytes}, at::kByte);
    else
      parts.on.gauge.set_limit(parts.on.budget_bytes - bytes);
  }

  std::uint64_t seed;
  std::int64_t last_change = 24;
  at::Tensor tenant;
  bool over_the_cap = false;
  std::vector<std::int64_t> batches;  // of every tick
};

std::int64_t reversals(const std::vector<std::int64_t>& sizes) {
  std::int64_t count = 0, direction = 0;
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    const std::int64_t now = sizes[i] > sizes[i - 1] ? 1 : sizes[i] < sizes[i - 1] ? -1 : direction;
    count += direction != 0 && now != direction;
    direction = now;
  }
  return count;
}

// On the real allocator: every step is a tick.
TEST(CrowdedMemory, IsNeverOverdrawnAndTheBatchConverges) {
  RunConfig config = digits_run();
  config.train.control_interval = 1;
  config.train.steps = 48;
  config.control.curvature = "off";
  config.control.batch_growth = "free";
  config.train.batch = 8;
  config.data.train_samples = 240;
  std::int64_t changes = 0;
  for (std::uint64_t trace = 0; trace < 8; ++trace) {
    config.device.budget = std::to_string(read_cpu_memory().used + (15 << 19));
    CrowdedRun run(config, trace);
    const RunSummary summary = run.run();
    EXPECT_EQ(summary.steps, 48);
    EXPECT_FALSE(run.over_the_cap) << "trace " << trace;
    changes += summary.plan_changes;
    const auto from_here = run.batches.begin() + run.last_change + 10;
    const std::vector<std::int64_t> steady(from_here, run.batches.end());
    EXPECT_LE(reversals(steady), 1) << "trace " << trace << testing::PrintToString(run.batches);
    EXPECT_EQ(steady.front(), steady.back())
        << "trace " << trace << testing::PrintToString(run.batches);
  }
  EXPECT_GT(changes, 24) << "the traces made it move";
}

/// A run whose budget changes at every decision.
struct ChangingRun : WatchedRun {
  explicit ChangingRun(const RunConfig& wanted)
      : WatchedRun(wanted), room(parts.on.budget_bytes - parts.on.gauge.used()) {}

  std::optional<Budget> next_budget() override {
    ++changes;
    const std::uint32_t random = random_words(3, changes, 0).words[0];
    const double share = 1.0 / 3 + random / 0x1p32 * 2 / 3;
    const std::int64_t taken = static_cast<std::int64_t>(static_cast<double>(room) * (1 - share));
    limits.push_back(most - taken);
    return Budget(std::to_string(limits.back()));
  }
  void interval(const StepReport& report, const StepPlan& plan) override {
    EXPECT_EQ(report.memory.limit, limits.back());
    // The interval ran under the budget before.
    EXPECT_LE(report.memory.peak, *std::prev(limits.end(), 2)) << "step " << report.step;
    smallest = std::min(smallest, plan.micro_batch_size);
    WatchedRun::interval(report, plan);
  }

  std::int64_t most = parts.on.budget_bytes, room;
  std::uint64_t changes = 0;
  std::vector<std::int64_t> limits = {most};
  std::int64_t smallest = 1 << 30;
};

TEST(ABudgetThatIsTooSmall, NamesWhatHelpsTheMethod) {
  for (const char* method : {"zo", "fp32"}) {
    RunConfig config = small_run();
    config.train.method = method;
    config.device.budget = "100KiB";
    try {
      train(make_model({.name = "lenet5"}), config);
      ADD_FAILURE() << method << " trains in 100 KiB";
    } catch (const OutOfMemory& error) {
      const std::string said = error.what();
      const bool zeroth_order = config.train.method == "zo";  // which no plan is made for
      EXPECT_NE(said.find("--budget"), std::string::npos) << said;
      EXPECT_EQ(said.find("a smaller --batch") != std::string::npos, zeroth_order) << said;
      EXPECT_EQ(said.find("triaccel plan") != std::string::npos, !zeroth_order) << said;
    }
  }
}

TEST(ABudgetThatChanges, IsFollowedFiveHundredTimesWithoutLosingASample) {
  RunConfig config = digits_run();
  config.train.control_interval = 1;
  config.train.steps = 510;
  config.train.batch = 8;
  config.data.train_samples = 240;
  config.control.curvature = "off";
  config.control.batch = "micro";
  config.device.budget = std::to_string(read_cpu_memory().used + (5 << 20));
  ChangingRun run(config);
  const RunSummary summary = run.run();
  EXPECT_EQ(summary.steps, 510);
  EXPECT_GE(run.changes, 500u);
  EXPECT_TRUE(run.each_sample_once(17));
  EXPECT_LT(run.smallest, 8) << "the cuts were felt";
}

}  // namespace
}  // namespace triaccel
