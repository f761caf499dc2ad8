#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"

namespace triaccel {

/// What a run sets out to do; told to every sink once, at its start.
struct RunInfo {
  std::string run = {};  // name of the run directory
  std::string method = {};
  std::string model = {};
  std::string data = {};
  std::string device = {};  // in words, with the number of threads on a CPU
  std::string commit = {};  // of the source this program was built from
  std::uint64_t seed = 0;
  double epochs = 0;
  std::int64_t training_samples = 0;  // in one epoch
  std::int64_t total_samples = 0;     // the run trains in all
  std::int64_t budget_bytes = 0;      // 0: none
  std::int64_t first_step = 0;        // > 0: resumed after this many steps
  std::vector<std::string> layer_names = {};
};

/// One pass over held-out samples.
struct EvaluationReport {
  std::int64_t step = 0;
  double epoch = 0;
  std::string split = "test";  // or "validation"
  std::int64_t samples = 0;
  double loss = 0;
  double accuracy = 0;  // in [0, 1]
  double seconds = 0;
};

/// How a run ended; summary.json holds just this.
struct RunSummary {
  std::string status = "finished";  // or "stopped early", "interrupted"
  std::string method = {};
  std::string model = {};
  std::string stem = {};  // of a ResNet: "imagenet", "cifar"
  std::string data = {};
  std::string device = {};
  std::string commit = {};
  std::uint64_t seed = 0;
  double accuracy = 0;  // per cent, on the test split, after the last step
  double loss = 0;
  // Per cent: the best seen after an epoch or at the end, on the validation samples where there are
  // some, and on the test split only where there are none.
  double best_accuracy = 0;
  double epochs = 0;
  double seconds = 0;            // of training, over all sessions of the run
  double seconds_per_epoch = 0;  // mean of the last five (or fewer) epochs, evaluation left out
  double score = 0;              // efficiency_score.h; NaN: not known
  std::int64_t samples = 0;
  std::int64_t steps = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t peak_reserved_bytes = 0;
  std::int64_t data_bytes = 0;       // of the peak: the resident data set
  std::int64_t predicted_bytes = 0;  // of the rest, before the run; 0: not predicted
  std::int64_t budget_bytes = 0;
  std::int64_t batch_final = 0;
  std::int64_t batch_largest = 0;
  std::int64_t skipped_steps = 0;
  std::int64_t memory_retries = 0;
  std::int64_t rollbacks = 0;  // to the last checkpoint, after numbers that were not finite
  std::int64_t plan_changes = 0;
  std::int64_t curvature_probes = 0;
  // Of steps and evaluation passes on a GPU, in this session; a capture is a miss of the cache.
  std::int64_t graph_replays = 0;
  std::int64_t graph_captures = 0;
  // Of codes of saved activations, as last measured; 0 and empty: not measured.
  double code_noise = 0;  // variance of the gradient by their offsets, over that by the samples
  std::vector<double> code_noise_by_layer = {};  // the same over the layer's gradient squared
  PredictionCounts predictions = {};             // of blocks, over the run
  std::int64_t predicted_away_bytes = 0;         // by them, of the last pass
  double prediction_seconds = 0;                 // likewise, as last measured; negative: more
  // Of `seconds`: reading the measurements once an interval (without the wait for the steps that
  // are under way), curvature probes, and deciding. The statistics that every step gathers on the
  // device are part of the step.
  double control_seconds = 0;
  std::int64_t layers_fp32 = 0;  // in the last plan
  std::int64_t layers_bf16 = 0;
  std::int64_t layers_fp16 = 0;
  std::int64_t parameters = 0;
};

/// A place telemetry goes. Calls come from one thread, in the order of the run; a sink may throw
/// StorageError, which ends the run as any failed write does.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void start(const RunInfo&) {}
  /// Before the first step under a plan that differs from the one before it, the run's first plan
  /// included; `step` is the number of optimizer steps done.
  virtual void plan(std::int64_t /*step*/, const StepPlan&) {}
  /// Once per control interval, with the plan its last step ran under.
  virtual void interval(const StepReport&, const StepPlan&) {}
  virtual void evaluation(const EvaluationReport&) {}
  /// Something a person should know: a fallback taken, a step skipped, a file ignored.
  virtual void notice(const std::string&) {}
  virtual void finish(const RunSummary&) {}
};

}  // namespace triaccel
