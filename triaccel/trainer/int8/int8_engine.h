#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "triaccel/data/epoch_order.h"
#include "triaccel/int8/training/train_step.h"
#include "triaccel/int8_run/weights_file.h"
#include "triaccel/trainer/config/int8_options.h"
#include "triaccel/trainer/int8/int8_data.h"
#include "triaccel/trainer/int8/int8_device.h"
#include "triaccel/trainer/loop/step_engine.h"

namespace triaccel {

/// Steps of method "elasticzo-int8", in integers alone. A GPU and a CPU give the same bits.
class Int8Engine final : public StepEngine {
 public:
  /// Reads the data and makes the network.
  explicit Int8Engine(const RunConfig& config);

  RunInfo info() const override;
  ControlSetup control_setup() const override;
  const std::vector<std::int64_t>& training_ids() const override { return data_.split.training; }
  bool has_validation() const override { return !data_.split.validation.empty(); }
  std::vector<std::string> take_notices() override;
  std::unique_ptr<Sink> files_in(const std::filesystem::path& directory) override;
  void complete(RunSummary& summary) const override;
  void run(const StepPlan& plan, const Sampler& sampler, std::int64_t count,
           const StepPosition& at) override;
  StepReport collect() override;
  EvaluationReport evaluate(bool validation, const StepPlan& plan,
                            const std::function<void()>& alive) override;
  MemoryReport take_peak() override;
  SavedCheckpoint save(CheckpointStore& store, const CheckpointInfo& info,
                       std::vector<StateView> of_loop) override;
  void restore(const LoadedCheckpoint& checkpoint, const StepPlan& plan) override;

  /// After the last step. Waits for the device.
  const int8::State& state();
  /// Of the loss in every step that was collected: what redo_int8 needs.
  const std::vector<std::int8_t>& slopes() const { return slopes_; }

 private:
  c10::Device device() const { return device_ ? device_->device() : c10::Device(c10::kCPU); }
  void choose_device_for_steps(const RunConfig& config);
  void add(const int8::StepReport& report);
  std::int64_t own_bytes() const;   // weights and working memory at their peak; a GPU's batch
  std::int64_t data_bytes() const;  // resident samples and the batch under way

  std::string model_;
  Int8Data data_;
  Int8Reader train_, test_;  // of it
  int8::State state_;
  Int8Options options_;
  StepPlan plan_;                       // the only one
  std::unique_ptr<Int8Device> device_;  // null: steps run on the CPU, in `cpu_`
  Int8CpuSteps cpu_;
  EpochOrder order_;  // of samples, on the device
  std::vector<std::string> notices_;
  std::vector<std::int8_t> slopes_;
  std::int64_t steps_done_ = 0;
  std::int64_t interval_samples_ = 0;
  std::int64_t interval_correct_ = 0;
  double interval_loss_ = 0;  // sum over its samples, nats
};

/// The slopes of a run, a byte per step. Throws StorageError.
std::vector<std::int8_t> read_slopes(const std::filesystem::path& run_directory);

/// Repeats on a run's first weights what its steps did to the layers trained by a zeroth-order
/// estimate: they end with the same bits, from configuration and slopes. Layers that backpropagate
/// keep their first weights.
void redo_int8(int8::State& first, const RunConfig& config, std::int64_t samples_per_epoch,
               std::span<const std::int8_t> slopes);

}  // namespace triaccel
