#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/policy_event.h"

namespace triaccel {

// The boundary of a plan: the layers before it train by the loss alone, those behind it, its last
// `bp_layers`, by backpropagation.

/// Where neither the user nor a budget says how many.
inline constexpr std::int64_t kBpLayers = 2;

std::int64_t bp_layers_of(const StepPlan& plan);
void set_boundary(StepPlan& plan, std::int64_t bp_layers);

/// What fits a budget.
struct BoundaryFit {
  std::int64_t bp_layers = 0;
  std::int64_t micro_batch = 0;
  bool operator==(const BoundaryFit&) const = default;
};

/// As many layers by backpropagation as fit in the smallest passes, then the largest passes that
/// fit with them: the batch, halved as often as it takes. `fits` is monotone in both. Nothing when
/// not even the smallest passes without backpropagation fit.
std::optional<BoundaryFit> search_boundary(std::int64_t layers, std::int64_t batch,
                                           std::int64_t smallest_pass,
                                           const std::function<bool(const BoundaryFit&)>& fits);

struct BoundaryOptions {
  std::int64_t smallest = 1;   // layers by backpropagation
  std::int64_t largest = 1;    // all of them
  double shrink_above = 0.95;  // peak memory as a share of the budget
  double grow_below = 0.80;
  std::int64_t dwell_ticks = 20;  // between two moves
  double standstill = 0.02;       // a loss that fell by less of itself in a dwell stands still
};

/// Moves the boundary while training: one layer less by backpropagation as soon as memory is
/// short, one more when the loss stands still and memory is not. What was too much once is tried
/// again after four dwells, then eight, and so on.
class BoundaryPolicy final : public Stateful {
 public:
  explicit BoundaryPolicy(const BoundaryOptions& options);

  /// Once a control interval.
  void apply(const StepReport& report, StepPlan& plan, PolicyEvents& events);

  /// Fewer layers by backpropagation for a plan that ran out of memory; nothing when there are none
  /// to give up.
  std::optional<StepPlan> out_of_memory(const StepPlan& failed);

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  void give_up(std::int64_t bp_layers);

  BoundaryOptions options_;
  std::int64_t tick_ = 0;
  std::int64_t moved_at_ = 0;    // tick
  std::int64_t too_many_ = 0;    // layers by backpropagation that did not fit; 0: none known
  std::int64_t wait_until_ = 0;  // tick before which they are not tried again
  std::int64_t wait_ticks_ = 0;
  double loss_ = 0;       // averaged over ticks
  double loss_then_ = 0;  // the same, a dwell ago
};

}  // namespace triaccel
