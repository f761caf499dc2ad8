#include <gtest/gtest.h>

#include "tests/trainer/paper_rules.h"
#include "triaccel/device/cuda_memory.h"

namespace triaccel {
namespace {

TEST(TheControlLoopOnCuda, FollowsThePapersRules) {
  if (!cuda_available()) GTEST_SKIP() << "this machine has no CUDA device";
  RunConfig config = small_run("cuda");
  config.model.name = "resnet18";
  config.model.width = 16;
  config.train.epochs = 4;
  expect_all_precisions_by_paper_rules(paper_run(config));
}

}  // namespace
}  // namespace triaccel
