#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/sample_sets.h"
#include "tests/trainer/small_run.h"
#include "triaccel/data/load_data.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel {
namespace {

struct Case {
  RunConfig config = {};
  DataOptions data = {};
  ModelOptions model = {};
};

Case images() {
  RunConfig config = digits_run();
  config.train.control_interval = 3;
  return {.config = config,
          .data = {.name = "mnist", .root = digits_folder()},
          .model = {.name = "lenet5", .input_channels = 1, .classes = 10, .image_size = 28}};
}

Case text_of(const std::filesystem::path& folder) {
  RunConfig config = digits_run();
  config.data.context_length = 32;
  config.train.steps = 6;
  return {.config = config,
          .data = {.name = "text", .root = folder, .context_length = 32},
          .model = {.name = "gpt-small", .width = 32, .context_length = 32, .vocabulary = 64}};
}

Case points_of(const std::filesystem::path& folder) {
  RunConfig config = digits_run();
  config.train.method = "fp32";
  config.train.batch = 4;
  config.train.steps = 3;
  return {.config = config,
          .data = {.name = "modelnet40", .root = folder},
          .model = {.name = "pointnet", .classes = 40}};
}

struct Trained {
  std::vector<at::Tensor> weights = {};
  RunSummary summary = {};
};

/// With the samples on the device, or in host memory of their own, as on a GPU.
Trained trained(Case run, std::int64_t device_bytes) {
  run.data.device_bytes = device_bytes;
  const LoadedData data = load_data(run.data, c10::Device(c10::kCPU));
  torch::manual_seed(5);
  const Network network = make_model(run.model);
  Trained ended{.summary = train(network, {.train = data.train, .test = data.test}, run.config)};
  for (const at::Tensor& weight : network.module->parameters())
    ended.weights.push_back(weight.detach());
  return ended;
}

void expect_same_weights(const Case& run) {
  const Trained on_device = trained(run, DataOptions::kAnyNumber), on_host = trained(run, 0);
  EXPECT_EQ(on_device.summary.host_data_bytes, 0);
  EXPECT_GT(on_host.summary.host_data_bytes, 10'000);
  EXPECT_LT(on_host.summary.data_bytes, on_device.summary.data_bytes / 10);
  EXPECT_EQ(on_host.summary.accuracy, on_device.summary.accuracy);
  EXPECT_EQ(on_host.summary.curvature_probes, on_device.summary.curvature_probes);
  for (std::size_t i = 0; i < on_device.weights.size(); ++i)
    ASSERT_TRUE(at::equal(on_host.weights[i], on_device.weights[i])) << "parameter " << i;
}

TEST(DataInHostMemory, TrainsImagesToTheSameWeights) { expect_same_weights(images()); }

TEST(DataInHostMemory, TrainsWithCompressedActivationsToTheSameWeights) {
  Case run = images();
  run.config.activations.keep = "compressed";
  expect_same_weights(run);
}

TEST(DataInHostMemory, TrainsTextToTheSameWeights) {
  const ScratchFolder folder;
  write_text(folder.path);
  expect_same_weights(text_of(folder.path));
}

TEST(DataInHostMemory, TrainsPointCloudsToTheSameWeights) {
  const ScratchFolder folder;
  write_clouds(folder.path);
  expect_same_weights(points_of(folder.path));
}

TEST(DataPlacement, ChangesNothingOnACpu) {
  RunConfig config = plain_digits_run();
  config.train.steps = 2;
  config.device.budget = "1GiB";
  std::vector<std::int64_t> resident;
  for (const char* placement : {"auto", "device", "host"}) {
    config.data.placement = placement;
    torch::manual_seed(5);
    const RunSummary summary =
        train(make_model({.name = "lenet5", .input_channels = 1, .image_size = 28}), config);
    EXPECT_EQ(summary.host_data_bytes, 0) << placement;
    resident.push_back(summary.data_bytes);
  }
  EXPECT_GT(resident.front(), 200'000);
  EXPECT_EQ(resident, std::vector<std::int64_t>(3, resident.front()));
}

}  // namespace
}  // namespace triaccel
