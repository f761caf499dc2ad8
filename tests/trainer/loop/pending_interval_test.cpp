#include "triaccel/trainer/loop/run_progress.h"

#include <gtest/gtest.h>

#include <limits>

namespace triaccel {
namespace {

StepReport first_half() {
  StepReport report{.interval_steps = 3, .interval_samples = 48, .loss = 2, .skipped_steps = 2};
  report.accuracy = 0.5;
  report.saved_nonfinite = 7;
  report.skipped_layer = 4;
  report.memory_retries = 1;
  report.memory.peak = 900;
  report.memory.reserved = 1000;
  report.nonfinite_losses = 2;
  return report;
}

StepReport second_half() {
  StepReport report{.step = 5, .interval_steps = 2, .interval_samples = 32, .loss = 1};
  report.accuracy = 1;
  report.memory.peak = 700;
  report.memory.reserved = 1200;
  return report;
}

// The same whether or not the run was cut between the two halves.
TEST(PendingInterval, IsOneIntervalAlsoAcrossARestart) {
  PendingInterval before, resumed;
  before.add(first_half());
  StateMap saved;
  for (StateView& view : before.state()) saved.emplace(view.name, view);
  resumed.restore(saved);
  for (PendingInterval* pending : {&before, &resumed}) {
    pending->add(second_half());
    const StepReport whole = pending->take();
    EXPECT_EQ(whole.step, 5);
    EXPECT_EQ(whole.interval_steps, 5);
    EXPECT_EQ(whole.interval_samples, 80);
    EXPECT_EQ(whole.skipped_steps, 2);
    EXPECT_EQ(whole.skipped_layer, 4);
    EXPECT_EQ(whole.memory_retries, 1);
    EXPECT_EQ(whole.memory.peak, 900);
    EXPECT_EQ(whole.memory.reserved, 1200);
    EXPECT_EQ(whole.nonfinite_losses, 2);
    EXPECT_DOUBLE_EQ(whole.loss, (2 * 48 + 1 * 32) / 80.0);
    EXPECT_DOUBLE_EQ(whole.accuracy, (0.5 * 48 + 1 * 32) / 80);
    EXPECT_EQ(whole.saved_nonfinite, 7);
    EXPECT_EQ(pending->take().interval_samples, 0) << "a new interval begins";
  }
}

TEST(PendingInterval, HasTheMeanOfWhatWasFinite) {
  PendingInterval pending;
  StepReport infinite = first_half();
  infinite.loss = std::numeric_limits<double>::infinity();
  pending.add(infinite);
  pending.add(second_half());
  EXPECT_EQ(pending.take().loss, 1);
}

}  // namespace
}  // namespace triaccel
