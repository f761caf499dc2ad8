#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"

namespace triaccel {

/// Describes a run; passed to every sink once, at the start.
struct RunInfo {
  std::string run = {};  // name of the run directory
  std::string method = {};
  std::string model = {};
  std::string data = {};
  std::string device = {};       // description, with the number of threads on a CPU
  std::string device_type = {};  // cpu or cuda
  std::string commit = {};       // of the source this program was built from
  std::uint64_t seed = 0;
  double epochs = 0;
  std::int64_t training_samples = 0;  // in one epoch
  std::int64_t total_samples = 0;     // over the whole run
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
  // Where the classes have names: how many samples of each there were, and how many were right.
  std::vector<std::string> class_names = {};
  std::vector<std::int64_t> class_samples = {}, class_correct = {};
};

/// Accuracy of one class in [0, 1]; NaN without samples.
inline double class_accuracy(const EvaluationReport& report, std::size_t number) {
  const auto samples = static_cast<double>(report.class_samples[number]);
  return samples > 0 ? static_cast<double>(report.class_correct[number]) / samples : std::nan("");
}

/// The result of a run: the content of summary.json.
struct RunSummary {
  std::string status = "finished";  // or "running", "stopped" (by a signal), "failed"
  std::string reason = {};          // of "failed", and of "finished" where it stopped early
  std::int64_t process = 0;         // "running": its id
  std::string heartbeat = {};       // "running": when this was written, UTC, ISO 8601
  std::string method = {};
  std::string model = {};
  std::string stem = {};  // of a ResNet: "imagenet", "cifar"
  std::string data = {};
  std::string device = {}, device_type = {};
  std::string commit = {};
  std::uint64_t seed = 0;
  double accuracy = 0;  // percent, on the test split, after the last step
  double loss = 0;
  // Percent: the best after any epoch or at the end; measured on the validation split if there is
  // one, otherwise on the test split.
  double best_accuracy = 0;
  double epochs = 0;
  double seconds = 0;            // of training, including earlier sessions of a resumed run
  double seconds_per_epoch = 0;  // mean of the last five (or fewer) epochs, without evaluation
  double score = 0;              // efficiency_score.h; NaN: not known
  std::int64_t samples = 0;
  std::int64_t steps = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t peak_reserved_bytes = 0;
  std::int64_t data_bytes = 0;             // of the peak: the resident data set
  std::int64_t host_data_bytes = 0;        // of the data set in host memory, next to the peak
  std::int64_t host_state_bytes = 0;       // of optimizer state in host memory, likewise
  std::int64_t host_activation_bytes = 0;  // of host memory for saved activations, likewise
  // Peak (int8: without the data set), predicted before the run; 0: not predicted.
  std::int64_t predicted_bytes = 0;
  std::int64_t budget_bytes = 0;
  std::int64_t batch_final = 0;
  std::int64_t batch_largest = 0;
  std::int64_t skipped_steps = 0;
  std::int64_t memory_retries = 0;
  std::int64_t rollbacks = 0;  // to the last checkpoint, after non-finite values
  std::int64_t plan_changes = 0;
  std::int64_t curvature_probes = 0;
  // CUDA graphs of steps and evaluation passes, this session only; a capture is a cache miss.
  std::int64_t graph_replays = 0;
  std::int64_t graph_captures = 0;
  double graph_capture_seconds = 0;
  // Noise added by compressed activations, as last measured; 0 and empty: not measured.
  double compression_noise =
      0;  // gradient variance due to compression over that due to the mini-batch
  std::vector<double> compression_noise_by_layer = {};  // per layer, over the squared gradient
  // Part of `seconds`: reading measurements once per control interval (not counting the
  // synchronization with pending steps), curvature probes, profiles of activations, and policy
  // decisions. Statistics gathered on the device count as part of the step.
  double control_seconds = 0;
  std::int64_t layers_fp32 = 0;  // in the last plan
  std::int64_t layers_bf16 = 0;
  std::int64_t layers_fp16 = 0;
  std::int64_t parameters = 0;
  // Of data whose classes have names, on the test split, in percent; NaN: no test samples.
  std::vector<std::string> class_names = {};
  std::vector<double> class_accuracies = {};
};

/// A destination for telemetry. Called from one thread, in order; a sink may throw StorageError,
/// which ends the run like any failed write.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void start(const RunInfo&) {}
  /// Called for the first plan and whenever the plan changes, before its first step; `step` is the
  /// number of optimizer steps done.
  virtual void plan(std::int64_t /*step*/, const StepPlan&) {}
  /// Called once per control interval, with the plan of its last step.
  virtual void interval(const StepReport&, const StepPlan&) {}
  virtual void evaluation(const EvaluationReport&) {}
  /// A message for the user: a fallback, a skipped step, an ignored file.
  virtual void notice(const std::string&) {}
  /// A message that must reach the user even where notices are not shown.
  virtual void warning(const std::string& message) { notice(message); }
  virtual void finish(const RunSummary&) {}
};

}  // namespace triaccel
