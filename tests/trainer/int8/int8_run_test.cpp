#include "triaccel/trainer/int8/int8_engine.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/trainer/small_run.h"
#include "triaccel/base/error.h"
#include "triaccel/formats/safetensors.h"
#include "triaccel/int8/training/step_memory.h"
#include "triaccel/int8_run/weights_file.h"
#include "triaccel/telemetry/records/summary.h"
#include "triaccel/trainer/config/int8_options.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel {
namespace {

/// A slim LeNet-5 on the bright patches: sixty steps.
RunConfig patches_run(std::int64_t bp_layers) {
  RunConfig config;
  config.train.method = "elasticzo-int8";
  config.train.epochs = 4;
  config.train.batch = 16;
  config.train.control_interval = 5;
  config.model.name = "lenet5";
  config.data.name = "mnist";
  config.data.root = digits_folder().string();
  config.zeroth_order.bp_layers = bp_layers;
  config.device.device = "cpu";
  return config;
}

RunSummary trained(const RunConfig& config, const std::filesystem::path& folder,
                   const TrainingHooks& hooks = {}) {
  return holds_run(folder) ? resume_run(folder, hooks) : start_run(config, folder, hooks);
}

int8::State first_state(const RunConfig& config) {
  const Int8Data data = load_int8_data(int8_data_options(config));
  return int8::initial_state(int8_network_for(config, data),
                             static_cast<std::uint64_t>(config.train.seed));
}

int8::State final_state(const RunConfig& config, const std::filesystem::path& folder) {
  int8::State state = first_state(config);
  load_int8_weights(state, folder / kInt8WeightsFile);
  return state;
}

TEST(Int8Run, LearnsBrightPatchesByBackpropagation) {
  ScratchFolder folder;
  Recorder recorder;
  const RunSummary summary =
      trained(patches_run(/*bp_layers=*/5), folder.path, {.sinks = {&recorder}});
  EXPECT_GT(summary.accuracy, 90);
  EXPECT_EQ(summary.steps, 60);
  EXPECT_EQ(recorder.evaluations.size(), 4u);  // after every epoch
  EXPECT_LT(recorder.reports.back().loss, recorder.reports.front().loss);
  EXPECT_EQ(read_summary(folder.path / kSummaryFile).accuracy, summary.accuracy);
}

TEST(Int8Run, NeedsAsMuchMemoryAsWasPredicted) {
  for (const std::int64_t bp_layers : {0, 2}) {
    ScratchFolder folder;
    const RunConfig config = patches_run(bp_layers);
    const RunSummary summary = trained(config, folder.path);
    const int8::State state = first_state(config);
    const Int8Options options = int8_options(config, state.network, 240);
    EXPECT_EQ(summary.peak_bytes - summary.data_bytes,
              int8::step_memory(state.network, 16, options.step).total())
        << bp_layers;
  }
}

TEST(Int8Run, IsRebuiltFromItsSlopesBitForBit) {
  ScratchFolder folder;
  const RunConfig config = patches_run(/*bp_layers=*/0);
  trained(config, folder.path);
  const std::vector<std::int8_t> slopes = read_slopes(folder.path);
  ASSERT_EQ(slopes.size(), 60u);
  int8::State rebuilt = first_state(config);
  const std::vector<std::int8_t> before = rebuilt.weights;
  redo_int8(rebuilt, config, /*samples_per_epoch=*/240, slopes);
  EXPECT_NE(rebuilt.weights, before);
  EXPECT_EQ(rebuilt.weights, final_state(config, folder.path).weights);
}

TEST(Int8Run, RebuildsTheLayersThatTrainByTheLossAlone) {
  ScratchFolder folder;
  const RunConfig config = patches_run(/*bp_layers=*/2);
  trained(config, folder.path);
  int8::State rebuilt = first_state(config);
  redo_int8(rebuilt, config, /*samples_per_epoch=*/240, read_slopes(folder.path));
  const int8::State ended = final_state(config, folder.path);
  const std::ptrdiff_t boundary = rebuilt.network.offsets[3];
  EXPECT_TRUE(
      std::equal(ended.weights.begin(), ended.weights.begin() + boundary, rebuilt.weights.begin()));
  EXPECT_NE(ended.weights, rebuilt.weights);
}

TEST(Int8Run, EndsTheSameWhenItWasInterrupted) {
  ScratchFolder whole, cut;
  const RunConfig config = patches_run(/*bp_layers=*/2);
  trained(config, whole.path);
  std::int64_t steps = 0;
  const RunSummary first =
      trained(config, cut.path, {.stop_requested = [&] { return ++steps == 22; }});
  EXPECT_EQ(first.status, "stopped");
  EXPECT_EQ(trained(config, cut.path).status, "finished");
  EXPECT_EQ(final_state(config, cut.path), final_state(config, whole.path));
  EXPECT_EQ(read_slopes(cut.path), read_slopes(whole.path));
  EXPECT_EQ(evaluate_run(cut.path).accuracy,
            read_summary(whole.path / kSummaryFile).accuracy / 100);
}

// As integer runs wrote them before every run had a plan and a controller.
TEST(Int8Run, GoesOnFromACheckpointWithoutAPlan) {
  ScratchFolder whole, cut;
  const RunConfig config = patches_run(/*bp_layers=*/2);
  trained(config, whole.path);
  std::int64_t steps = 0;
  trained(config, cut.path, {.stop_requested = [&] { return ++steps == 22; }});
  LoadedCheckpoint older = *CheckpointStore(cut.path / kCheckpointFolder).load_latest();
  std::erase_if(older.files.at(kTrainerFile), [](const auto& named) {
    return !named.first.starts_with("progress/") && named.first != "sampler" &&
           named.first != "slopes";
  });
  const RunConfig stored = resolved(read_run_config(cut.path));
  Int8Engine engine(stored);
  const TrainingHooks none;
  TrainingLoop loop(stored, engine, none, nullptr);
  loop.restore(older);
  EXPECT_EQ(loop.run().status, "finished");
  EXPECT_EQ(engine.state().weights, final_state(config, whole.path).weights);
  EXPECT_EQ(engine.slopes(), read_slopes(whole.path));
}

TEST(Int8Run, StartsFromWeightsOfAnotherRun) {
  ScratchFolder folder;
  RunConfig config = patches_run(/*bp_layers=*/5);
  const RunSummary summary = trained(config, folder.path);
  config.model.init_from = (folder.path / kInt8WeightsFile).string();
  EXPECT_EQ(100 * evaluate_weights(config).accuracy, summary.accuracy);
}

TEST(Int8Run, RefusesWeightsWithoutExponents) {
  ScratchFolder folder;
  RunConfig config = patches_run(/*bp_layers=*/1);
  const int8::State state = first_state(config);
  const auto file = folder.path / "plain.safetensors";
  write_safetensors(file, int8_weight_views(int8::export_weights(state)));
  int8::State taken = state;
  EXPECT_THROW(load_int8_weights(taken, file), DataError);
}

TEST(Int8Run, RefusesNetworksWithoutAnIntegerForm) {
  RunConfig config = patches_run(/*bp_layers=*/1);
  config.model.name = "resnet18";
  EXPECT_THROW(evaluate_weights(config), UsageError);
}

}  // namespace
}  // namespace triaccel
