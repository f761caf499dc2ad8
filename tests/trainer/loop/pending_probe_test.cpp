#include "triaccel/trainer/loop/curvature_meter.h"

#include <gtest/gtest.h>

namespace triaccel {
namespace {

std::vector<LayerCurvature> two_layers() {
  return {{.eigenvalues = {3, 1}, .gradient_noise = 5, .gradient_signal = -0.5}, {}};
}

StateMap saved(const PendingProbe& probe) {
  StateMap all;
  for (StateView& view : probe.state()) all.emplace(view.name, view);
  return all;
}

// The decision after a restart sees what it would have seen without one.
TEST(PendingProbe, IsKeptWholeByARunThatIsSavedMeanwhile) {
  PendingProbe before, resumed;
  std::promise<std::vector<LayerCurvature>> layers;
  before.start({.step = 400, .batch = 32}, layers.get_future());
  layers.set_value(two_layers());
  resumed.restore(saved(before));
  for (PendingProbe* probe : {&before, &resumed}) {
    const auto report = probe->take();
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, 400);
    EXPECT_EQ(report->batch, 32);
    EXPECT_EQ(report->layers, two_layers());
    EXPECT_FALSE(probe->take());
  }
}

TEST(PendingProbe, IsNothingWhereNoneWasStarted) {
  PendingProbe none, resumed;
  resumed.start({.step = 1}, {});
  resumed.restore(saved(none));
  EXPECT_FALSE(resumed.take());
}

TEST(PendingProbe, RefusesACheckpointThatIsCut) {
  PendingProbe probe;
  probe.start({.layers = two_layers()});
  StateMap state = saved(probe);
  state["pending_probe.layers"] = number_state<double>("pending_probe.layers", {2, 5, -0.5, 3});
  EXPECT_THROW(probe.restore(state), StorageError);
}

}  // namespace
}  // namespace triaccel
