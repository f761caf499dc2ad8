#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "triaccel/base/clock.h"
#include "triaccel/checkpoint/checkpoint_store.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/data/sampler.h"
#include "triaccel/int8/training/train_step.h"
#include "triaccel/telemetry/sink.h"
#include "triaccel/trainer/config/int8_options.h"
#include "triaccel/trainer/config/run_config.h"
#include "triaccel/trainer/int8/int8_data.h"
#include "triaccel/trainer/int8/int8_device.h"
#include "triaccel/trainer/loop/run_progress.h"
#include "triaccel/trainer/loop/watchdog.h"

namespace triaccel {

struct TrainingHooks;

/// A run of method "elasticzo-int8": steps, evaluations and checkpoints until it is done. Samples
/// come in the order every method has them in. A GPU and a CPU give the same bits.
class Int8Training {
 public:
  /// Reads the data and makes the network. Without a store nothing is saved.
  Int8Training(const RunConfig& config, const TrainingHooks& hooks);
  Int8Training(const Int8Training&) = delete;
  Int8Training& operator=(const Int8Training&) = delete;

  /// Goes on from a checkpoint; StorageError when it belongs to another configuration.
  void restore(const LoadedCheckpoint& checkpoint);

  /// Trains to the end, to early stopping, or until a stop is requested.
  RunSummary run(CheckpointStore* store);

  EvaluationReport evaluate_split(bool validation);

  const int8::State& state() const { return state_; }
  std::int64_t step() const { return progress_.step; }
  /// Of the loss in every step so far: what redo_int8 needs.
  const std::vector<std::int8_t>& slopes() const { return slopes_; }

 private:
  RunInfo info() const;
  c10::Device device() const { return device_ ? device_->device() : c10::Device(c10::kCPU); }
  void choose_device_for_steps();
  void one_step();
  void note(const int8::StepReport& report);
  void fetch_state();  // from the device, to save it or hand it out
  int8::Evaluation evaluated(bool validation, std::span<const std::int64_t> ids);
  void report_interval();
  void save(CheckpointStore* store);
  bool finished() const;
  bool has_validation() const { return !data_.split.validation.empty(); }
  double epoch_now() const;
  std::int64_t own_bytes() const;   // weights and working memory at their peak; a GPU's batch
  std::int64_t data_bytes() const;  // resident samples and the batch under way
  RunSummary summary(std::string status, const std::optional<EvaluationReport>& last) const;

  const RunConfig& config_;
  const TrainingHooks& hooks_;
  Int8Data data_;
  Sampler sampler_;
  int8::State state_;
  Int8Options options_;
  std::int64_t total_samples_;
  StepPlan plan_;                       // as telemetry shows it
  std::unique_ptr<Int8Device> device_;  // null: steps run on the CPU, in the two below
  int8::Arena arena_;
  Int8Batch batch_;
  EpochOrder order_;  // of samples, on the device
  RunProgress progress_;
  std::vector<std::int8_t> slopes_;
  Watchdog watchdog_;
  Stopwatch session_;
  Stopwatch interval_;
  double seconds_not_training_ = 0;
  double seconds_before_ = 0;  // of earlier sessions
  std::int64_t interval_steps_ = 0;
  std::int64_t interval_samples_ = 0;
  std::int64_t interval_correct_ = 0;
  double interval_loss_ = 0;  // sum over its samples, nats
};

/// Sums of losses in 2^-16 bit to nats.
double int8_nats(std::int64_t loss);

}  // namespace triaccel
