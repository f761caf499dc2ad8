#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "triaccel/core/layer_registry.h"
#include "triaccel/core/state_view.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/batch/batch_policy.h"
#include "triaccel/policies/compression/gradient_noise.h"
#include "triaccel/policies/curvature/curvature_policy.h"
#include "triaccel/policies/policy_options.h"
#include "triaccel/policies/precision/precision_policy.h"

namespace triaccel {

/// The plan for the next control interval, and what made it so.
struct Decision {
  StepPlan plan = {};
  PolicyEvents events = {};  // a few lines for people; empty when nothing happened
};

/// Tri-Accel's control loop, section 3.4: once a control interval, from the report of the interval
/// and the plan that ran, in a fixed order: precision, learning rates, batch.
///
/// The same reports give the same plans, also across state() and restore(). With every mechanism
/// off the plan stays what it is.
class Controller final : public Stateful {
 public:
  /// `kinds` and the layers of `start`, the run's first plan, go by LayerId.
  Controller(const ControlOptions& options, std::vector<LayerKind> kinds, const StepPlan& start);

  /// `current` is the plan the last step of the interval ran under.
  Decision next(const StepReport& report, const StepPlan& current);

  /// The answer to an out-of-memory under `failed`: as smaller_plan. The size is remembered, and
  /// growth resumes below it in the ticks that follow.
  std::optional<StepPlan> out_of_memory(const StepPlan& failed, std::int64_t smallest_pass = 1);

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  ControlOptions options_;
  std::size_t layers_;
  GradientNoise noise_;
  PrecisionPolicy precision_;
  CurvaturePolicy curvature_;
  BatchPolicy batch_;
};

/// The same optimizer step in forward passes of half the size, so that the samples of a step and
/// its learning rate stay what they were. Empty when passes of `smallest_pass` samples did not fit.
std::optional<StepPlan> smaller_plan(const StepPlan& current, std::int64_t smallest_pass = 1);

}  // namespace triaccel
