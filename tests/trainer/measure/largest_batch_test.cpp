#include "triaccel/trainer/measure/largest_batch.h"

#include <gtest/gtest.h>

#include "tests/trainer/small_run.h"
#include "triaccel/base/error.h"
#include "triaccel/trainer/measure/step_timing.h"

namespace triaccel {
namespace {

RunConfig short_run() {
  RunConfig config = small_run();
  config.data.name = "mnist";
  config.data.root = digits_folder().string();
  config.data.train_samples = 0;
  config.train.batch = 32;
  config.device.threads = 1;
  return config;
}

TEST(LargestBatch, IsItsOwnInItsOwnMemoryAndLargerWithCompressedActivations) {
  RunConfig config = short_run();
  const std::int64_t budget =
      time_steps(resolved(config), {.warmup_steps = 1, .samples = 1}).peak_reserved_bytes;
  const std::int64_t raw = largest_batch(config, budget);
  EXPECT_GE(raw, 32);
  EXPECT_LE(raw, 34);
  config.activations.keep = "compressed";
  EXPECT_GT(largest_batch(config, budget), raw);
}

TEST(LargestBatch, EndsAtTheDataSetAndAtNothing) {
  RunConfig config = short_run();
  config.data.train_samples = 48;
  EXPECT_EQ(largest_batch(config, std::int64_t{1} << 40), 48);
  EXPECT_EQ(largest_batch(config, 1), 0);
  config.data.train_samples = 100;
  config.train.batch = 1;  // how far it is from the first batch does not matter
  EXPECT_EQ(largest_batch(config, std::int64_t{1} << 40), 100);
  EXPECT_THROW(largest_batch(config, 0), UsageError);
}

}  // namespace
}  // namespace triaccel
