#pragma once

#include <cstddef>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// Tracks each layer's curvature between probes; decides which layers are promoted to the next
/// higher precision and scales their learning rates.
class CurvaturePolicy {
 public:
  /// `normalized` as in ControlSetup.
  CurvaturePolicy(const ControlOptions& options, const StepPlan& start,
                  std::vector<bool> normalized = {});

  /// Adds a probe; skipped probes are ignored.
  void add(const CurvatureReport& probe, PolicyEvents& events);

  /// Layers that compute one precision level higher than their gradients require.
  const std::vector<bool>& promoted() const { return promoted_; }

  /// Sets every layer's learning-rate scale in the plan, relative to the first plan.
  /// `learning_rate` is that of the last step, before per-layer scales.
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
  std::vector<bool> normalized_;
  std::vector<double> lambda_;       // robust: averaged, non-negative
  std::vector<std::uint8_t> known_;  // layers measured at least once
  std::vector<bool> promoted_;
  double tau_;  // 0: no threshold (yet)
};

/// Tri-Accel, section 3.2: eta_l / eta = 1 / (1 + alpha * lambda), lambda the largest eigenvalue of
/// the layer. The paper's eta_0 is taken as eta(t), the learning rate of the schedule.
double paper_rate_share(double lambda, double alpha);

/// min(1, cap * 2 (1 + momentum) / (eta lambda)): the stability limit of a quadratic with that
/// curvature, at least the floor. Flat and concave layers keep the full learning rate.
double robust_rate_share(double lambda, double learning_rate, const CurvatureRules& rules);

/// Updates the average of lambda in log space, by at most a factor of `most_change`. `average` 0:
/// no positive value yet. A non-positive lambda lowers it by that factor.
double smoothed_curvature(double average, double lambda, const CurvatureRules& rules);

/// Whether a layer is promoted after a probe: above tau, until below tau (1 - hysteresis).
bool promoted_by_curvature(bool promoted, double lambda, double tau, double hysteresis);

}  // namespace triaccel
