#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "triaccel/base/clock.h"
#include "triaccel/checkpoint/checkpoint_store.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/data/sampler.h"
#include "triaccel/policies/learning_rate_schedule.h"
#include "triaccel/telemetry/sink.h"
#include "triaccel/trainer/evaluate/evaluator.h"
#include "triaccel/trainer/loop/pending_interval.h"
#include "triaccel/trainer/loop/run_control.h"
#include "triaccel/trainer/loop/run_parts.h"
#include "triaccel/trainer/loop/run_progress.h"
#include "triaccel/trainer/loop/watchdog.h"

namespace triaccel {

/// What the surroundings of a run take part in.
struct TrainingHooks {
  std::vector<Sink*> sinks = {};              // told everything, in this order
  std::function<bool()> stop_requested = {};  // asked after each step
  std::function<void(const std::string& section, double seconds)> on_hang = {};
};

/// Turns the loop: steps, control ticks, evaluations and checkpoints until the run is done.
class TrainingLoop {
 public:
  /// Without a store nothing is saved.
  TrainingLoop(const RunConfig& config, RunParts& parts, const TrainingHooks& hooks,
               CheckpointStore* store);

  /// Goes on from a checkpoint; StorageError when it belongs to another configuration.
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
    bool look = false;  // at what was skipped
    bool decide = false;
  };

  bool finished() const;
  Due due_after_step(bool end_of_epoch) const;
  void one_step();
  void shrink_after(const OutOfMemory& error, std::int64_t samples, std::int64_t failures);
  std::optional<CurvatureReport> probe_curvature();
  double schedule_progress() const;  // share of the schedule that is done
  /// Plans how saved tensors are kept, where a look at them is due.
  void look_at_saved(bool first);
  bool look_at_interval(const Due& due);
  StepReport interval_report();
  bool decide_next_plan();  // false: the run went back to an earlier step
  void change_plan(StepPlan next);
  void tell_plan();
  bool is_sound(const StepReport& report, bool look_at_weights);
  [[noreturn]] void give_up(const StepReport& report) const;
  void roll_back(const std::string& why);
  void end_epoch();
  void save();
  void note(const std::string& message);
  void start_new_peak();
  /// On the held-out training samples or on the test set; told to the sinks.
  EvaluationReport evaluate_split(bool validation);
  RunSummary summary(std::string status, const std::optional<EvaluationReport>& last) const;
  bool has_validation() const { return !parts_.data.validation_ids.empty(); }
  double epoch_now() const;
  std::int64_t schedule_position() const;

  const RunConfig& config_;
  RunParts& parts_;
  const TrainingHooks& hooks_;
  CheckpointStore* store_;
  Sampler sampler_;
  EpochOrder order_;
  Evaluator evaluator_;
  LearningRateSchedule schedule_;
  RunControl control_;
  StepPlan plan_;
  RunProgress progress_;
  PendingInterval pending_;
  std::vector<at::Tensor> interval_ids_;  // samples of the steps since the last look
  Watchdog watchdog_;
  Stopwatch session_;                // since this session's run() began
  Stopwatch interval_;               // since the last look
  double seconds_not_training_ = 0;  // evaluating and saving since the last look
  double seconds_before_ = 0;        // of earlier sessions
  double learning_rate_ = 0;         // of the last step
  double zeroth_order_rate_ = 0;     // likewise
  std::int64_t interval_steps_ = 0;
  std::int64_t interval_samples_ = 0;
  std::int64_t interval_retries_ = 0;
  std::int64_t rollbacks_to_checkpoint_ = 0;  // the newest one
  std::string last_skips_;                    // where they came from, in words
  bool weights_astray_ = false;               // what the last look at them found
};

}  // namespace triaccel
