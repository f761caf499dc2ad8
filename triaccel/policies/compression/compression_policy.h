#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/compression/compression_loop.h"
#include "triaccel/policies/compression/compression_options.h"
#include "triaccel/policies/compression/noise_calibration.h"
#include "triaccel/policies/compression/saved_planner.h"
#include "triaccel/policies/compression/similarity_meter.h"
#include "triaccel/policies/compression/tensor_sensitivities.h"

namespace triaccel {

/// Compression in the control loop: what saved tensors are worth, from what ticks and epochs say
/// and from statistics of the tensors.
///
/// The same reports give the same plans, also across state() and restore().
class CompressionPolicy final : public Stateful {
 public:
  /// Throws UsageError for options no run can have.
  explicit CompressionPolicy(const CompressionOptions& options);

  void tick(const CompressionTick& tick, PolicyEvents& events);
  void epoch(const CompressionEpoch& epoch, PolicyEvents& events);

  /// Plans for passes of so many samples; `previous` are those in force, by tensor, or none. While
  /// neither the ratio, the price of a drop nor the bound has changed, only tensors that have moved
  /// since the last call get new ones. Lowers a ratio at which nonlinear inputs and attention would
  /// keep too few bits to train.
  SavedDecision plan(std::span<const SavedStatistics> tensors, std::int64_t samples,
                     std::span<const SavedPlan> previous);

  /// The same with as many bits but at the present ratio, whose bytes the plans may then exceed.
  SavedDecision plan_at_ratio(std::span<const SavedStatistics> tensors, std::int64_t samples,
                              std::span<const SavedPlan> previous);

  /// Whether the mode is a lossy one: then values matter, and loss and accuracy steer.
  bool lossy() const;

  /// Whether the last plans were made under other orders than those now in force.
  bool outdated() const { return lossy() && !(wanted() == planned_); }

  /// The ratio of the last plans where a higher one is wanted, which nobody has tried yet; else 0.
  double ratio_before_rise() const;

  /// Tells that the plans of a higher ratio are too noisy: plan again, halfway back to `ratio` or
  /// `all_the_way`.
  void back_off(double ratio, bool all_the_way, PolicyEvents& events);

  /// What compression adds to the mini-batch's noise, over what it may.
  double noise_over_target(const CompressionNoise& noise) const;

  /// Whether the ratio falls where noise asks for it: it adapts, and is not at its lowest yet.
  bool can_fall() const;

  /// Tells the relative error of the gradient that was measured under the last plans. True: plan
  /// again, since it is above the bound of Error mode, or, with `may_grow`, far below.
  bool correct(double measured_error, bool may_grow);

  /// Tells the noise of every layer that was measured under the last plans, which were made for
  /// these tensors. Plans stay as they are until calibrate().
  void learn(const CompressionNoise& measured, std::span<const SavedStatistics> tensors,
             std::span<const SavedPlan> plans);

  /// Plans are made by that noise from now on, the next ones for all tensors. Where they are no
  /// better, a copy from before goes on.
  void calibrate();

  /// Whether the sensitivity to single tensors is to be measured after so many steps: rarely, since
  /// that takes a pass per tensor.
  bool tensors_due(std::int64_t step) const;

  /// They were, under each of `lone`, plans for these tensors. The next plans are made by it, for
  /// all tensors. False: nothing was learnt, and nothing changes.
  bool learn_tensors(std::span<const SavedStatistics> tensors, std::span<const LonePlan> lone,
                     std::span<const double> errors);
  /// Those plans are better: a ratio that failed to rise may try again.
  void accept_tensors(PolicyEvents& events) { loop_ = after_better_plans(loop_, events); }
  /// What was learnt of other tensors than these is of no use; they are measured after twice as
  /// many steps.
  void forget_other_tensors(std::span<const SavedStatistics> tensors);
  void tensors_were_measured(std::int64_t step) { tensors_measured_ = step; }

  /// The error of the gradient that Error mode promises; 0 in other modes.
  double error_bound() const;

  CompressionOrders orders() const { return orders_of(loop_, options_.loop); }

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  /// What plans are made for; all 0: without loss.
  struct Planned {
    double ratio = 0, drop_price = 0, error_bound = 0;
    bool operator==(const Planned&) const = default;
  };
  Planned wanted() const;
  /// Whether a ratio that leaves too few bits is lowered.
  bool guards_bits() const;
  SavedDecision plan_within(std::span<const SavedStatistics> tensors, std::int64_t samples,
                            std::span<const SavedPlan> previous, bool may_lower_ratio);
  /// The decision at the highest ratio below the present one that leaves enough bits, which becomes
  /// the present one. False: it has to stay.
  bool lower_ratio(SavedDecision& decision, std::span<const SavedStatistics> tensors,
                   PlanRequest request);

  CompressionOptions options_;
  CompressionState loop_;
  double error_scale_ = 1;             // of the planner's bound over error_bound()
  TensorSensitivities sensitivities_;  // that plans are made by
  std::int64_t tensors_measured_ = 0;  // after which step; 0: not yet
  NoiseCalibration learnt_;            // what the noise of layers says since then
  NoiseCalibration calibration_;       // what plans are made by: the same, or as it once was
  Planned planned_;                    // what the last plans were made for
  std::vector<SavedSketch> sketches_;  // of the tensors when they last got a plan
};

}  // namespace triaccel
