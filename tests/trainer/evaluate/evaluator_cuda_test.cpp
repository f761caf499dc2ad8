#include "triaccel/trainer/evaluate/evaluator.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>
#include <vector>

#include "triaccel/data/load_data.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/side_stream.h"
#include "triaccel/models/model_zoo.h"

namespace triaccel {
namespace {

// Replayed passes read the weights as they are now, and the samples that are asked for.
TEST(EvaluatorOnCuda, FindsTheSameWhenItsPassesAreReplayed) {
  if (!cuda_available()) GTEST_SKIP() << "this machine has no CUDA device";
  const c10::Device gpu(c10::kCUDA, 0);
  set_arithmetic(/*deterministic=*/true);
  allow_expandable_segments();  // as every run does
  const WorkStream stream(gpu);
  const SideStreams side;
  at::manual_seed(3);
  const Network network = make_model({.name = "resnet18", .width = 16});
  network.module->to(gpu);
  const LoadedData data = load_data({.name = "synthetic", .train_samples = 128}, gpu);
  GraphCache graphs({}, side);
  Evaluator eager(network, gpu), captured(network, gpu, &graphs);
  const EvaluationRules rules{.batch = 32};
  for (int round = 0; round < 3; ++round) {
    std::vector<std::int64_t> ids(100);  // three passes of 32 and one of 4
    std::iota(ids.begin(), ids.end(), 7 * round);
    const EvaluationReport expected = eager.evaluate(*data.train, ids, rules);
    const EvaluationReport found = captured.evaluate(*data.train, ids, rules);
    EXPECT_EQ(found.samples, 100);
    EXPECT_NEAR(found.loss, expected.loss, 1e-5 * expected.loss) << round;
    EXPECT_EQ(found.accuracy, expected.accuracy) << round;
    const at::NoGradGuard no_grad;
    for (at::Tensor& weight : network.module->parameters()) weight.mul_(1.1);
  }
  EXPECT_EQ(graphs.counts().captures, 2);
  EXPECT_EQ(graphs.counts().replays, 12);
  set_arithmetic(/*deterministic=*/false);
}

}  // namespace
}  // namespace triaccel
