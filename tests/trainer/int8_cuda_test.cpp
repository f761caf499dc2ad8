#include <gtest/gtest.h>

#include "tests/support/sample_sets.h"
#include "tests/trainer/small_run.h"
#include "triaccel/base/error.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/int8/training/state.h"
#include "triaccel/telemetry/records/summary.h"
#include "triaccel/trainer/config/int8_options.h"
#include "triaccel/trainer/int8/int8_engine.h"
#include "triaccel/trainer/loop/training.h"
#include "triaccel/trainer/loop/training_loop.h"

namespace triaccel {
namespace {

class Int8OnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "this machine has no CUDA device";
  }
};

/// LeNet-5 on the bright patches, with a short batch at the end of every epoch.
RunConfig patches_run(const std::string& device, std::int64_t bp_layers) {
  RunConfig config;
  config.train.method = "elasticzo-int8";
  config.train.epochs = 4;
  config.train.batch = 32;
  config.train.control_interval = 3;
  config.model.name = "lenet5";
  config.data.name = "mnist";
  config.data.root = digits_folder().string();
  config.data.val_split = 30;
  config.zeroth_order.bp_layers = bp_layers;
  config.device.device = device;
  return config;
}

struct Ended {
  std::uint64_t hash = 0;
  std::vector<std::int8_t> slopes = {};
  RunSummary summary = {};
  std::vector<double> losses = {};  // of intervals and evaluations
};

Ended trained(const RunConfig& config) {
  Recorder recorder;
  const TrainingHooks hooks{.sinks = {&recorder}};
  Int8Engine engine(config);
  Ended ended{.summary = TrainingLoop(config, engine, hooks, nullptr).run()};
  ended.hash = int8::state_hash(engine.state());
  ended.slopes = engine.slopes();
  for (const StepReport& report : recorder.reports) ended.losses.push_back(report.loss);
  for (const EvaluationReport& report : recorder.evaluations) ended.losses.push_back(report.loss);
  return ended;
}

TEST_F(Int8OnCuda, EndsWithTheSameWeightsAsOnTheCpu) {
  for (const std::int64_t bp_layers : {0, 1, 2, 3}) {
    const Ended on_cpu = trained(patches_run("cpu", bp_layers));
    const Ended on_cuda = trained(patches_run("cuda", bp_layers));
    EXPECT_EQ(on_cuda.hash, on_cpu.hash) << bp_layers;
    EXPECT_EQ(on_cuda.slopes, on_cpu.slopes) << bp_layers;
    EXPECT_EQ(on_cuda.losses, on_cpu.losses) << bp_layers;
    EXPECT_EQ(on_cuda.summary.accuracy, on_cpu.summary.accuracy) << bp_layers;
    EXPECT_NE(on_cuda.summary.device, on_cpu.summary.device);
  }
}

TEST_F(Int8OnCuda, TrainsOverAFrozenHeadAsTheCpuDoes) {
  RunConfig config = patches_run("cpu", 2);
  config.zeroth_order.freeze = true;
  const Ended on_cpu = trained(config);
  config.device.device = "cuda";
  EXPECT_EQ(trained(config).hash, on_cpu.hash);
}

TEST_F(Int8OnCuda, TrainsPointNetAsTheCpuDoes) {
  const ScratchFolder folder;
  write_clouds(folder.path);
  RunConfig config = patches_run("cpu", 2);
  config.model.name = "pointnet-plain";
  config.model.width = 16;
  config.data.name = "modelnet40";
  config.data.root = folder.path.string();
  config.data.val_split = 0;
  config.train.batch = 16;
  const Ended on_cpu = trained(config);
  config.device.device = "cuda";
  const Ended on_cuda = trained(config);
  EXPECT_EQ(on_cuda.hash, on_cpu.hash);
  EXPECT_EQ(on_cuda.losses, on_cpu.losses);
}

TEST_F(Int8OnCuda, EndsTheSameWhenItWasInterrupted) {
  const ScratchFolder scratch;
  RunConfig config = patches_run("auto", 2);
  start_run(config, scratch.path / "whole");
  int steps = 0;
  start_run(config, scratch.path / "cut", {.stop_requested = [&] { return ++steps == 11; }});
  resume_run(scratch.path / "cut");
  EXPECT_EQ(final_weights(scratch.path / "cut"), final_weights(scratch.path / "whole"));
  EXPECT_EQ(read_slopes(scratch.path / "cut"), read_slopes(scratch.path / "whole"));
}

TEST_F(Int8OnCuda, LeavesWhatItCannotDoToTheCpu) {
  EXPECT_THROW(trained(patches_run("cuda", 5)), UsageError);
  EXPECT_EQ(trained(patches_run("auto", 5)).hash, trained(patches_run("cpu", 5)).hash);
}

}  // namespace
}  // namespace triaccel
