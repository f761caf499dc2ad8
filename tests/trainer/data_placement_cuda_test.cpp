#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/sample_sets.h"
#include "tests/trainer/small_run.h"
#include "triaccel/data/tensor_data.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/models/network.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel {
namespace {

class DataPlacementOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "this machine has no CUDA device";
    write_text(sets.path);
    write_clouds(sets.path);
  }

  /// The same bytes of weights from both places, by captured steps.
  void expect_same_weights(RunConfig config) const {
    config.train.deterministic = true;
    config.device.device = "cuda";
    const ScratchFolder runs;
    config.data.placement = "device";
    const RunSummary on_device = start_run(config, runs.path / "device");
    config.data.placement = "host";
    const RunSummary on_host = start_run(config, runs.path / "host");
    EXPECT_EQ(final_weights(runs.path / "host"), final_weights(runs.path / "device"));
    EXPECT_EQ(on_host.accuracy, on_device.accuracy);
    EXPECT_GT(on_host.graph_replays, 0);
    EXPECT_EQ(on_device.host_data_bytes, 0);
    EXPECT_GT(on_host.host_data_bytes, 10'000);
    EXPECT_EQ(on_host.data_bytes + on_host.host_data_bytes, on_device.data_bytes);
  }

  ScratchFolder sets;
};

TEST_F(DataPlacementOnCuda, GivesTheSameWeightsForImages) {
  RunConfig config = small_run("cuda");
  config.train.method = "triaccel";
  config.control.batch = "off";
  config.control.curvature_every = 4;
  expect_same_weights(config);
}

TEST_F(DataPlacementOnCuda, GivesTheSameWeightsForText) {
  RunConfig config = small_run("cuda");
  config.model.name = "gpt-small";
  config.model.width = 64;
  config.data.name = "text";
  config.data.root = sets.path.string();
  config.data.context_length = 32;
  config.data.train_samples = 192;
  config.train.batch = 16;
  expect_same_weights(config);
}

TEST_F(DataPlacementOnCuda, GivesTheSameWeightsForPointClouds) {
  RunConfig config = small_run("cuda");
  config.model.name = "pointnet";
  config.data.name = "modelnet40";
  config.data.root = sets.path.string();
  config.data.train_samples = 0;
  config.train.batch = 8;
  config.train.epochs = 4;
  expect_same_weights(config);
}

/// Half a mebibyte of samples, by a linear layer.
RunSummary train_tensors(const std::string& placement, const std::string& budget) {
  torch::manual_seed(5);
  const auto samples = [] {
    return std::make_shared<TensorData>(torch::rand({512, 128}), torch::arange(512).remainder(10));
  };
  RunConfig config = small_run("cuda");
  config.data.placement = placement;
  config.device.budget = budget;
  config.train.steps = 8;
  return train(as_network(torch::nn::Sequential(torch::nn::Linear(128, 10)).ptr(), "linear"),
               {.train = samples(), .test = samples()}, config);
}

TEST_F(DataPlacementOnCuda, TrainsOnTensorsOfTheUsersOwn) {
  const RunSummary on_device = train_tensors("device", "none");
  const RunSummary on_host = train_tensors("host", "none");
  EXPECT_EQ(on_host.loss, on_device.loss);
  EXPECT_EQ(on_host.data_bytes, 0);
  EXPECT_EQ(on_host.host_data_bytes, on_device.data_bytes);
}

TEST_F(DataPlacementOnCuda, AutoKeepsDataOnTheDeviceUnlessTheyTakeMuchOfABudget) {
  RunConfig config = small_run("cuda");  // 15 MiB of images
  config.train.steps = 2;
  const auto host_bytes = [&](const char* budget) {
    config.device.budget = budget;
    const ScratchFolder run;
    return start_run(config, run.path / "run").host_data_bytes;
  };
  EXPECT_EQ(host_bytes("none"), 0);
  EXPECT_EQ(host_bytes("1GiB"), 0);
  EXPECT_EQ(host_bytes("400MiB"), 5120 * 3 * 32 * 32);
}

}  // namespace
}  // namespace triaccel
