#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "triaccel/core/layer_registry.h"
#include "triaccel/core/state_view.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/batch/batch_policy.h"
#include "triaccel/policies/compression/activation_policy.h"
#include "triaccel/policies/curvature/curvature_policy.h"
#include "triaccel/policies/curvature/gradient_noise.h"
#include "triaccel/policies/policy_options.h"
#include "triaccel/policies/precision/precision_policy.h"
#include "triaccel/policies/zeroth_order/elastic_boundary.h"

namespace triaccel {

/// A fixed sequence of plans that replaces the controller, used to replay a recorded run.
class PlanSchedule {
 public:
  /// Throws UsageError unless there is a plan, steps are increasing and batch sizes valid.
  explicit PlanSchedule(std::vector<ScheduledPlan> plans);

  /// The plan in effect after `step` steps; `current` before the first. Throws UsageError if it was
  /// recorded from a model with other layers.
  const StepPlan& plan_after(std::int64_t step, const StepPlan& current) const;

 private:
  std::vector<ScheduledPlan> plans_;
};

/// Options under which a plan stays what it is.
inline ControlOptions no_control() {
  return {.precision_on = false, .curvature_on = false, .batch = {.mode = BatchMode::Off}};
}

/// What a run starts from and lets be decided.
struct ControlSetup {
  StepPlan plan = {};                 // the first
  std::vector<LayerKind> kinds = {};  // index = LayerId
  std::vector<bool> normalized = {};  // likewise, as in LayerInfo; empty: none is
  ControlOptions options = no_control();
  std::optional<ActivationOptions> activations = {};  // empty: as autograd keeps them
  std::optional<PlanSchedule> replayed = {};  // a recorded run's plans in place of decisions
  std::int64_t probe_every = 0;               // steps between curvature probes; 0: never
  std::int64_t smallest_pass = 1;             // samples
  bool moves_boundary = false;                // layers may change to backpropagation and back
  bool zeroth_order = false;                  // layers train by a zeroth-order estimate
};

/// The plan for the next control interval, and what made it so.
struct Decision {
  StepPlan plan = {};
  PolicyEvents events = {};  // a few lines for people; empty when nothing happened
  std::optional<ProfileRequest> profile = {};  // to be measured under the plan before it is final
};

/// Tri-Accel's control loop, section 3.4: once a control interval, from the report of the interval
/// and the plan that ran, in a fixed order: precision, learning rates, batch, boundary,
/// activations.
///
/// The same reports give the same plans, also across state() and restore(). With every mechanism
/// off the plan stays what it is.
class Controller final : public Stateful {
 public:
  explicit Controller(const ControlSetup& setup);
  /// `kinds` and the layers of `start`, the run's first plan, go by LayerId.
  Controller(const ControlOptions& options, std::vector<LayerKind> kinds, const StepPlan& start)
      : Controller(ControlSetup{.plan = start, .kinds = std::move(kinds), .options = options}) {}

  /// The plan of a fresh run.
  StepPlan first_plan() const;

  /// Whether a curvature probe is due after this step.
  bool probe_due(std::int64_t step) const;

  /// The plan that a recorded run brings into force once `step` steps are done; empty elsewhere,
  /// so that what memory made smaller since the last one stays.
  std::optional<StepPlan> replayed_change(std::int64_t step, const StepPlan& current) const;

  /// `current` is the plan the last step of the interval ran under.
  Decision next(const StepReport& report, const StepPlan& current);

  /// What to profile after this step; before the first one of a session in any case.
  std::optional<ProfileRequest> profile_due(std::int64_t step, const StepPlan& plan, bool first);
  /// There was no memory for that profile.
  void postpone_profile(std::int64_t step);
  /// The plan by what a profile under the last decision's plan says, or the next request.
  Decision after_profile(const ActivationProfile& found, Decision last);

  /// The plan with which the same samples are tried again after an out-of-memory: smaller passes,
  /// or fewer layers by backpropagation; empty when there are none. The size is remembered, and
  /// growth resumes below it in the ticks that follow.
  std::optional<StepPlan> out_of_memory(const StepPlan& failed);

  /// A more careful plan after a rollback to this step.
  Decision after_rollback(std::int64_t step, const StepPlan& restored);

  /// After an epoch, with its validation accuracy in per cent, or kUnmeasured.
  PolicyEvents after_epoch(double accuracy);

  /// How activations are kept; null: as autograd does.
  ActivationPolicy* activations() { return activations_ ? &*activations_ : nullptr; }
  const ActivationPolicy* activations() const { return activations_ ? &*activations_ : nullptr; }

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  ControlOptions options_;
  StepPlan first_plan_;
  std::int64_t probe_every_;
  std::int64_t smallest_pass_;
  GradientNoise noise_;
  PrecisionPolicy precision_;
  CurvaturePolicy curvature_;
  BatchPolicy batch_;
  std::optional<PlanSchedule> replayed_;
  std::optional<BoundaryPolicy> boundary_;
  std::optional<LossAlarm> alarm_;
  std::optional<ActivationPolicy> activations_;
};

/// The same optimizer step in forward passes of half the size, so that the samples of a step and
/// its learning rate stay what they were. Empty when passes of `smallest_pass` samples did not fit.
std::optional<StepPlan> smaller_plan(const StepPlan& current, std::int64_t smallest_pass = 1);

}  // namespace triaccel
