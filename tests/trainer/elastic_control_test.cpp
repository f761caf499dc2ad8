#include <gtest/gtest.h>

#include <map>

#include "tests/trainer/small_run.h"
#include "triaccel/base/error.h"
#include "triaccel/trainer/config/int8_options.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel {
namespace {

RunConfig frozen_run(double epochs) {
  RunConfig config = small_run();
  config.train.method = "elasticzo";
  config.train.epochs = epochs;
  config.data.name = "mnist";
  config.data.root = digits_folder().string();
  config.data.augment = false;
  config.zeroth_order.bp_layers = 2;
  config.zeroth_order.freeze = true;
  return config;
}

/// The tensors a run ended with, by name.
std::map<std::string, std::vector<std::byte>> tensors_after(const RunConfig& config) {
  const ScratchFolder folder;
  start_run(config, folder.path);
  std::map<std::string, std::vector<std::byte>> tensors;
  const auto loaded = CheckpointStore(folder.path / kCheckpointFolder).load_latest();
  for (const auto& [name, view] : loaded->files.at("weights.safetensors"))
    tensors[name] = {view.bytes.begin(), view.bytes.end()};
  return tensors;
}

TEST(FreezeHead, KeepsTheLayersBeforeTheBoundaryAndTrainsTheOthers) {
  const auto after_one = tensors_after(frozen_run(1));
  const auto after_two = tensors_after(frozen_run(2));
  for (const auto& [name, bytes] : after_one) {
    const bool trained = name.starts_with("fc2") || name.starts_with("fc3");
    EXPECT_EQ(bytes != after_two.at(name), trained) << name;
  }
}

TEST(FreezeHead, IsRefusedWhereThereIsNoBoundary) {
  RunConfig config = frozen_run(1);
  config.train.method = "zo";
  config.zeroth_order.bp_layers = -1;
  EXPECT_THROW(resolved(config), UsageError);
}

TEST(Rotation, ChangesWhatIsEvaluated) {
  RunConfig config = frozen_run(1);
  const double upright = evaluate_weights(config).loss;
  config.data.rotation = 45;
  EXPECT_NE(evaluate_weights(config).loss, upright);
  config.data.rotation = 0;
  EXPECT_EQ(evaluate_weights(config).loss, upright);
}

TEST(Rotation, IsRefusedForPointClouds) {
  RunConfig config;
  config.model.name = "pointnet";
  config.data.name = "modelnet40";
  config.data.rotation = 30;
  EXPECT_THROW(resolved(config), UsageError);
}

TEST(Int8Schedule, AreOneNumberOrTwo) {
  const ScheduleRange range{1, 7};
  const auto schedule = [&](std::string_view written) {
    return int8_schedule(written, {2, 5}, range, "--bits");
  };
  EXPECT_EQ(schedule("").last, 5);
  EXPECT_EQ(schedule("3").first, 3);
  EXPECT_EQ(schedule("3").last, 3);
  EXPECT_EQ(schedule("4-1").first, 4);
  EXPECT_EQ(schedule("4-1").last, 1);
  for (const char* wrong : {"0", "8", "-1", "4-", "4-9", "a", "4-1-2", "4 1"})
    EXPECT_THROW(schedule(wrong), UsageError) << wrong;
}

TEST(Int8Config, RefusesWhatIntegersCannotDo) {
  RunConfig config = frozen_run(1);
  config.train.method = "elasticzo-int8";
  EXPECT_NO_THROW(resolved(config));
  config.train.ema = 0.99;
  EXPECT_THROW(resolved(config), UsageError);
  config.train.ema = 0;
  config.train.optimizer_state = "fp8";
  EXPECT_THROW(resolved(config), UsageError);
}

}  // namespace
}  // namespace triaccel
