#pragma once

#include <cstddef>
#include <vector>

#include "triaccel/core/curvature_report.h"
#include "triaccel/core/state_view.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/policies/policy_event.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// Remembers each layer's curvature between probes; says which layers are lifted a rung and what
/// share of the learning rate each keeps.
class CurvaturePolicy {
 public:
  CurvaturePolicy(const ControlOptions& options, const StepPlan& start);

  /// Takes in a probe; one that was skipped changes nothing.
  void add(const CurvatureReport& probe, PolicyEvents& events);

  /// Layers that compute one rung higher than their gradients ask for, until a probe says less.
  const std::vector<bool>& lifted() const { return lifted_; }

  /// Writes every layer's share of the learning rate into the plan, on top of what the first plan
  /// gave it. `learning_rate` is the one of the last step, before the layers' shares.
  void apply(double learning_rate, StepPlan& plan) const;

  void save(std::vector<StateView>& state) const;
  void restore(const StateMap& saved);

 private:
  void find_tau(PolicyEvents& events);
  double share(std::size_t layer, double learning_rate) const;

  CurvatureRules rules_;
  PolicySet set_;
  PaperGuards guards_;
  std::vector<float> start_scales_;
  std::vector<double> lambda_;       // robust: averaged and not negative
  std::vector<std::uint8_t> known_;  // layers measured at least once
  std::vector<bool> lifted_;
  double tau_;  // 0: no threshold (yet)
};

}  // namespace triaccel
