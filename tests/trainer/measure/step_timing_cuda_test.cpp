#include "triaccel/trainer/measure/step_timing.h"

#include <gtest/gtest.h>

#include "tests/trainer/small_run.h"
#include "triaccel/device/cuda_memory.h"

namespace triaccel {
namespace {

TEST(StepTimingCuda, AStepByTheLossAloneTakesTheMemoryOfInference) {
  if (!cuda_available()) GTEST_SKIP() << "this machine has no CUDA device";
  RunConfig config = small_run("cuda");
  config.model.name = "resnet18";
  config.train.method = "zo";
  config.train.batch = 256;
  config = resolved(config);
  const StepTimingOptions few{.warmup_steps = 4, .samples = 1};
  const StepTiming forwards = time_forward_passes(config, few, /*passes=*/2);
  const StepTiming step = time_steps(config, few);
  EXPECT_LE(static_cast<double>(step.peak_allocated_bytes),
            1.02 * static_cast<double>(forwards.peak_allocated_bytes));
}

}  // namespace
}  // namespace triaccel
