#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

// The boundary of a plan: the last `bp_layers` layers use backpropagation, the layers before them a
// zeroth-order estimate.

/// Default if neither the user nor a budget determines the number.
inline constexpr std::int64_t kBpLayers = 2;

std::int64_t bp_layers_of(const StepPlan& plan);
void set_boundary(StepPlan& plan, std::int64_t bp_layers);

/// A combination that fits a budget.
struct BoundaryFit {
  std::int64_t bp_layers = 0;
  std::int64_t micro_batch = 0;
  bool operator==(const BoundaryFit&) const = default;
};

/// The most layers with backpropagation that fit with the smallest passes, then the largest passes
/// that fit with them (the batch, halved repeatedly). `fits` is monotone in both. Nothing if even
/// the smallest passes without backpropagation do not fit.
std::optional<BoundaryFit> search_boundary(std::int64_t layers, std::int64_t batch,
                                           std::int64_t smallest_pass,
                                           const std::function<bool(const BoundaryFit&)>& fits);

struct BoundaryOptions {
  std::int64_t smallest = 1;   // layers with backpropagation
  std::int64_t largest = 1;    // all layers
  double shrink_above = 0.95;  // peak as a share of the budget minus weights, state and data
  double grow_below = 0.80;
  std::int64_t dwell_ticks = 20;  // between two moves
  double standstill = 0.02;       // minimum relative decrease of the loss per dwell
};

/// Moves the boundary during training: one layer less with backpropagation as soon as memory is
/// short, one more if the loss has reached a plateau and memory permits. A number that did not fit
/// is retried after four dwells, then eight, and so on.
class BoundaryPolicy final : public Stateful {
 public:
  explicit BoundaryPolicy(const BoundaryOptions& options);

  /// Called once per control interval.
  void apply(const StepReport& report, StepPlan& plan, PolicyEvents& events);

  /// The plan with one layer less with backpropagation after running out of memory; nothing if
  /// there are none left.
  std::optional<StepPlan> out_of_memory(const StepPlan& failed);

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  void record_excess(std::int64_t bp_layers);

  BoundaryOptions options_;
  std::int64_t tick_ = 0;
  std::int64_t moved_at_ = 0;    // tick
  std::int64_t too_many_ = 0;    // layers with backpropagation that did not fit; 0: none known
  std::int64_t wait_until_ = 0;  // tick of the next retry
  std::int64_t wait_ticks_ = 0;
  double loss_ = 0;         // averaged over ticks
  double loss_before_ = 0;  // the same, one dwell earlier
};

/// Detects a rising training loss, the symptom of a learning rate that is too large for
/// zeroth-order steps. The variation between intervals sets the threshold.
class LossAlarm final : public Stateful {
 public:
  /// Adds the loss of one control interval; returns a message once per rise.
  std::optional<std::string> after(double loss, std::int64_t step);

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  std::int64_t ticks_ = 0;
  std::int64_t high_ticks_ = 0;  // consecutive, far above the best
  std::int64_t best_step_ = 0;
  double mean_ = 0;       // of the loss, over about twenty intervals
  double deviation_ = 0;  // mean absolute deviation of one interval
  double best_ = 0;       // lowest mean since the last alarm
};

}  // namespace triaccel
