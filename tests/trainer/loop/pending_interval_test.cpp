#include "triaccel/trainer/loop/run_progress.h"

#include <gtest/gtest.h>

namespace triaccel {
namespace {

StepReport first_half() {
  StepReport report{.interval_steps = 3, .interval_samples = 48, .skipped_steps = 2};
  report.skipped_layer = 4;
  report.memory_retries = 1;
  report.memory.peak = 900;
  report.memory.reserved = 1000;
  report.nonfinite_losses = 2;
  return report;
}

StepReport second_half() {
  StepReport report{.step = 5, .interval_steps = 2, .interval_samples = 32};
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
    EXPECT_EQ(pending->take().interval_samples, 0) << "a new interval begins";
  }
}

}  // namespace
}  // namespace triaccel
