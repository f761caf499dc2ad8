#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "tests/support/sample_sets.h"
#include "tests/trainer/small_run.h"
#include "triaccel/models/network.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel {
namespace {

namespace nn = torch::nn;

/// The loss on held-out samples after the same training under two methods.
std::pair<double, double> losses(RunConfig config, const ScratchFolder& scratch) {
  config.control.kernels = "gemm";
  config.control.batch = "off";
  config.train.method = "fp32";
  const double plain = start_run(config, scratch.path / "fp32").loss;
  config.train.method = "triaccel";
  Recorder recorder;
  const RunSummary summary = start_run(config, scratch.path / "triaccel", {.sinks = {&recorder}});
  EXPECT_GT(summary.layers_bf16, 0) << "the loss of FP32 alone proves nothing";
  EXPECT_GT(summary.curvature_probes, 0);
  EXPECT_EQ(summary.skipped_steps, 0);
  testing::Test::RecordProperty("fp32", std::to_string(plain));
  testing::Test::RecordProperty("triaccel", std::to_string(summary.loss));
  return {plain, summary.loss};
}

TEST(GptSmall, LearnsTextUnderTheControlLoopAsInFp32) {
  const ScratchFolder scratch;
  write_text(scratch.path);
  RunConfig config;
  config.model.name = "gpt-small";
  config.model.width = 64;
  config.data.name = "text";
  config.data.root = scratch.path.string();
  config.data.context_length = 32;
  config.data.train_samples = 192;
  config.train.batch = 16;
  config.train.epochs = 4;
  config.train.optimizer = "adamw";
  config.train.control_interval = 4;
  config.control.curvature_every = 16;
  config.control.curvature_batch = 8;
  config.device.device = "cpu";
  const auto [plain, controlled] = losses(config, scratch);
  EXPECT_LT(plain, 2.5) << "it has learnt something";
  EXPECT_NEAR(controlled, plain, 0.01 * plain);
}

TEST(VitSmall, LearnsImagesUnderTheControlLoopAsInFp32) {
  const ScratchFolder scratch;
  RunConfig config = small_run();
  config.model.name = "vit-small";
  config.model.width = 48;
  config.data.image_size =
      16;  // BF16 attention is slow on a CPU, and as slow as its patches squared
  config.train.batch = 16;
  config.train.epochs = 1;
  config.train.optimizer = "adamw";
  config.control.curvature_every = 16;
  config.control.curvature_batch = 8;
  const auto [plain, controlled] = losses(config, scratch);
  EXPECT_LT(plain, 2.2) << "it has learnt something";
  EXPECT_NEAR(controlled, plain, 0.01 * plain);
}

/// What a user may write: a branch, a residual sum, operators that no layer of ours stands behind.
struct Unusual : nn::Module {
  nn::Conv2d stem{register_module("stem", nn::Conv2d(nn::Conv2dOptions(1, 8, 3).padding(1)))};
  nn::Conv2d left{register_module("left", nn::Conv2d(nn::Conv2dOptions(8, 8, 3).padding(1)))};
  nn::Conv2d right{register_module("right", nn::Conv2d(nn::Conv2dOptions(8, 8, 1)))};
  nn::GroupNorm norm{register_module("norm", nn::GroupNorm(2, 8))};
  nn::PReLU bent{register_module("bent", nn::PReLU())};
  nn::LSTM rows{register_module("rows", nn::LSTM(nn::LSTMOptions(8 * 7, 24).batch_first(true)))};
  at::Tensor gate{register_parameter("gate", torch::ones({24}))};
  nn::Linear out{register_module("out", nn::Linear(24, 10))};

  at::Tensor forward(at::Tensor x) {
    x = torch::avg_pool2d(stem(x).relu_(), 4);
    x = bent(norm(x + left(x) * torch::sigmoid(right(x))));
    const at::Tensor sequence = x.permute({0, 2, 1, 3}).flatten(2);  // a row of pixels a time step
    const at::Tensor hidden = std::get<0>(rows(sequence)).select(1, -1);
    return out(torch::einsum("bi,i->bi", {hidden, gate}));
  }
};

TEST(AUsersOwnModule, LearnsUnderTheControlLoop) {
  RunConfig config = digits_run();
  config.data.train_samples = 0;
  config.train.epochs = 8;
  config.train.optimizer = "adamw";
  config.train.lr = 1e-2;
  config.control.curvature_every = 24;
  for (const char* mode : {"fisher_gram", "hessian"}) {
    config.control.curvature = mode;
    torch::manual_seed(1);
    Recorder recorder;
    const RunSummary summary =
        train(as_network(std::make_shared<Unusual>(), "unusual"), config, {.sinks = {&recorder}});
    EXPECT_GT(summary.accuracy, 70) << mode;
    EXPECT_GT(summary.curvature_probes, 0) << testing::PrintToString(recorder.notices);
    EXPECT_GT(summary.layers_bf16, 0);
    EXPECT_EQ(summary.skipped_steps, 0);
  }
}

}  // namespace
}  // namespace triaccel
