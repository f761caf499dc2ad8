#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/compression/activation_policy.h"
#include "triaccel/policies/early_stopping.h"
#include "triaccel/telemetry/sink.h"
#include "triaccel/trainer/config/run_config.h"

namespace triaccel {

/// How far a run is: the counters a checkpoint keeps in addition to the engine's state.
struct RunProgress final : Stateful {
  std::int64_t step = 0;
  std::int64_t samples = 0;
  std::int64_t skipped_steps = 0;
  std::int64_t memory_retries = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t peak_reserved_bytes = 0;
  std::int64_t largest_batch = 0;
  std::int64_t plan_changes = 0;
  std::int64_t curvature_probes = 0;
  std::int64_t rollbacks = 0;
  std::int64_t decide_again_at = 0;  // step of an extra decision, while steps are skipped
  double seconds = 0;                // of training, evaluation included, over all sessions
  double epoch_seconds = 0;          // of training alone, in the epoch under way
  double control_seconds = 0;        // of probes, of reading measurements and of deciding
  double best_accuracy = 0;          // in [0, 1]; as RunSummary has it
  bool stopped_early = false;
  std::vector<double> last_epoch_seconds = {};  // of at most five whole epochs
  EarlyStopping early_stopping = {};

  void finish_epoch() {
    if (last_epoch_seconds.size() == 5) last_epoch_seconds.erase(last_epoch_seconds.begin());
    last_epoch_seconds.push_back(epoch_seconds);
    epoch_seconds = 0;
  }

  /// After a rollback: what the run cost until then is not undone.
  void keep_costs_of(const RunProgress& later) {
    memory_retries = std::max(memory_retries, later.memory_retries);
    peak_bytes = std::max(peak_bytes, later.peak_bytes);
    peak_reserved_bytes = std::max(peak_reserved_bytes, later.peak_reserved_bytes);
    control_seconds = std::max(control_seconds, later.control_seconds);
    rollbacks = std::max(rollbacks, later.rollbacks);
  }

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;
};

/// What was measured since the last decision. A run may be saved, cut and resumed between two
/// decisions; each sees the same interval as if it had not been.
class PendingInterval final : public Stateful {
 public:
  void add(const StepReport& report);

  /// The interval up to now as one report, and a new interval.
  StepReport take() { return std::exchange(so_far_, {}); }

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  StepReport so_far_;
};

/// What a run has come to. `last` is its last evaluation; without one accuracy and loss are not
/// known. `activations`: null where autograd keeps them. The engine completes what it alone knows.
RunSummary run_summary(const RunConfig& config, const RunInfo& info, const RunProgress& progress,
                       const StepPlan& plan, const ActivationPolicy* activations,
                       std::string status, const std::optional<EvaluationReport>& last);

}  // namespace triaccel
