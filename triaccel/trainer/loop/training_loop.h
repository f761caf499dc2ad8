#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/clock.h"
#include "triaccel/checkpoint/checkpoint_store.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/telemetry/sink.h"
#include "triaccel/trainer/loop/run_progress.h"
#include "triaccel/trainer/loop/step_engine.h"
#include "triaccel/trainer/loop/watchdog.h"

namespace triaccel {

/// Callbacks of a run.
struct TrainingHooks {
  std::vector<Sink*> sinks = {};              // receive all telemetry, in this order
  std::function<bool()> stop_requested = {};  // called after each step
  std::function<void(const std::string& section, double seconds)> on_hang = {};
  // Called before each decision: another memory budget; empty: the same as before.
  std::function<std::optional<Budget>()> budget = {};
};

/// The training loop of every engine: steps, decisions, evaluations and checkpoints until the run
/// is done. Plans and reports are all that engine and controller exchange.
class TrainingLoop {
 public:
  /// Without a store nothing is saved.
  TrainingLoop(const RunConfig& config, StepEngine& engine, const TrainingHooks& hooks,
               CheckpointStore* store);

  /// Continues from a checkpoint. Throws StorageError if it belongs to another configuration.
  void restore(const LoadedCheckpoint& checkpoint);

  /// Trains to the end, to early stopping, or until a stop is requested.
  RunSummary run();

  std::int64_t step() const { return progress_.step; }
  RunInfo info() const;

 private:
  /// What is due after a step.
  struct Due {
    bool end_of_epoch = false;
    bool stop = false;
    bool save = false;
    bool probe = false;
    bool report = false;  // on skipped steps
    bool decide = false;
  };

  bool finished() const;
  Due due_after_step(bool end_of_epoch) const;
  void one_step();
  void shrink_after(const OutOfMemory& error, std::int64_t samples, std::int64_t failures);
  std::optional<CurvatureReport> probe_curvature();
  /// Plans how activations are kept, where a profile of them is due.
  void profile_activations(bool first);
  bool report_interval(const Due& due);  // false: the run was rolled back
  StepReport interval_report();
  bool decide_next_plan();  // likewise
  void change_plan(StepPlan next);
  void tell_plan();
  void follow_budget();
  bool is_sound(const StepReport& report, bool check_weights);
  [[noreturn]] void give_up(const StepReport& report) const;
  void roll_back(const std::string& why);
  void end_epoch();
  void save();
  void note(const std::string& message);
  void note(const std::vector<std::string>& messages);
  void start_new_peak();
  /// On the held-out training samples or on the test set; told to the sinks.
  EvaluationReport evaluate_split(bool validation);
  RunSummary summary(std::string status, const std::optional<EvaluationReport>& last) const;
  double epoch_now() const;
  std::int64_t schedule_position() const;

  const RunConfig& config_;
  StepEngine& engine_;
  const TrainingHooks& hooks_;
  CheckpointStore* store_;
  Sampler sampler_;
  std::int64_t total_samples_;  // of the schedule
  Controller control_;
  StepPlan plan_;
  RunProgress progress_;
  PendingInterval pending_;
  Watchdog watchdog_;
  Stopwatch session_;                // since this session's run() began
  Stopwatch interval_;               // since the last report
  double seconds_not_training_ = 0;  // evaluating and saving since the last report
  double seconds_before_ = 0;        // of earlier sessions
  std::int64_t interval_steps_ = 0;
  std::int64_t interval_samples_ = 0;
  std::int64_t interval_largest_ = 0;  // samples of a step
  std::int64_t interval_retries_ = 0;
  std::int64_t rollbacks_to_checkpoint_ = 0;  // the newest one
  std::string last_skips_;                    // where they came from, in words
  bool weights_astray_ = false;               // what the last diagnosis found
};

}  // namespace triaccel
