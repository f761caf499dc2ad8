#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/policies/early_stopping.h"

namespace triaccel {

/// How far a run is: the counters a checkpoint keeps beside the parts' own state.
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
  std::int64_t look_again_at = 0;  // step of a decision out of turn, while steps are being skipped
  double seconds = 0;              // of training, evaluation included, over all sessions
  double epoch_seconds = 0;        // of training alone, in the epoch under way
  double control_seconds = 0;      // of probes, of reading measurements and of deciding
  double best_accuracy = 0;        // in [0, 1]; as RunSummary has it
  bool stopped_early = false;
  std::vector<double> last_epoch_seconds = {};  // of at most five whole epochs
  EarlyStopping early_stopping = {};

  void finish_epoch() {
    if (last_epoch_seconds.size() == 5) last_epoch_seconds.erase(last_epoch_seconds.begin());
    last_epoch_seconds.push_back(epoch_seconds);
    epoch_seconds = 0;
  }

  /// After a return to an earlier state: what the run cost until then is not undone.
  void keep_costs_of(const RunProgress& later) {
    memory_retries = std::max(memory_retries, later.memory_retries);
    peak_bytes = std::max(peak_bytes, later.peak_bytes);
    peak_reserved_bytes = std::max(peak_reserved_bytes, later.peak_reserved_bytes);
    control_seconds = std::max(control_seconds, later.control_seconds);
    rollbacks = std::max(rollbacks, later.rollbacks);
  }

  std::vector<StateView> state() const override {
    return {number_state<std::int64_t>("progress/counters",
                                       {step, samples, skipped_steps, memory_retries, peak_bytes,
                                        peak_reserved_bytes, largest_batch, plan_changes,
                                        curvature_probes, rollbacks, std::int64_t{stopped_early},
                                        early_stopping.evaluations_since_best, look_again_at}),
            number_state<double>("progress/measures", {seconds, epoch_seconds, control_seconds,
                                                       best_accuracy, early_stopping.best_loss}),
            number_state<double>("progress/last_epoch_seconds", last_epoch_seconds)};
  }

  void restore(const StateMap& saved) override {
    const auto counters = numbers_from<std::int64_t>(saved, "progress/counters", 13);
    const auto measures = numbers_from<double>(saved, "progress/measures", 5);
    last_epoch_seconds = numbers_from<double>(saved, "progress/last_epoch_seconds");
    step = counters[0];
    samples = counters[1];
    skipped_steps = counters[2];
    memory_retries = counters[3];
    peak_bytes = counters[4];
    peak_reserved_bytes = counters[5];
    largest_batch = counters[6];
    plan_changes = counters[7];
    curvature_probes = counters[8];
    rollbacks = counters[9];
    stopped_early = counters[10] != 0;
    early_stopping.evaluations_since_best = counters[11];
    look_again_at = counters[12];
    seconds = measures[0];
    epoch_seconds = measures[1];
    control_seconds = measures[2];
    best_accuracy = measures[3];
    early_stopping.best_loss = measures[4];
  }
};

}  // namespace triaccel
