#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/policies/controller.h"
#include "triaccel/policies/plan_schedule.h"
#include "triaccel/policies/zeroth_order/elastic_boundary.h"
#include "triaccel/policies/zeroth_order/zeroth_order_alarm.h"
#include "triaccel/signals/curvature_probe.h"
#include "triaccel/signals/fisher_replay.h"
#include "triaccel/trainer/loop/pending_probe.h"
#include "triaccel/trainer/loop/run_compression.h"
#include "triaccel/trainer/loop/run_parts.h"

namespace triaccel {

/// The least samples a forward pass of the network can take.
std::int64_t smallest_pass_of(const Network& network);

/// The control loop of one run: when curvature is probed, what the next plan is. For methods fp32
/// and amp it keeps the plan, for elasticzo all but the boundary.
class RunControl final : public Stateful {
 public:
  RunControl(const RunConfig& config, RunParts& parts);

  /// The plan of a fresh run.
  StepPlan first_plan() const;

  /// Whether a curvature probe is due after this step.
  bool probe_due(std::int64_t step) const;
  std::int64_t probe_batch() const { return curvature_.batch; }

  /// Looks at the loss around every layer's weights from the training samples `ids()`. Its bytes
  /// count against the budget; it shrinks or gives up rather than pass it. Where steps are
  /// captured nothing is returned: probed() has it at the next decision, so that none waits.
  std::optional<CurvatureReport> probe(const std::function<at::Tensor()>& ids, std::int64_t step);
  std::optional<CurvatureReport> probed() { return pending_probe_.take(); }

  /// How saved tensors are kept, decided while the run trains; null: as autograd does.
  RunCompression* compression() { return compression_.get(); }
  const RunCompression* compression() const { return compression_.get(); }

  /// The plan that a replayed file brings into force once `step` steps are done; empty elsewhere,
  /// so that what memory made smaller since the last one stays.
  std::optional<StepPlan> replayed_change(std::int64_t step, const StepPlan& current) const;

  /// The plan for the steps after `report`, and why it changed.
  Decision next(const StepReport& report, const StepPlan& current);

  /// The plan with which the same samples are tried again; empty when there is no smaller one.
  std::optional<StepPlan> after_out_of_memory(const StepPlan& failed);

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  CurvatureReport look_at_once(const at::Tensor& ids, std::int64_t step);
  bool can_replay() const;
  void replay_probe(const at::Tensor& ids, std::int64_t step);

  RunParts& parts_;
  std::int64_t probe_every_ = 0;  // steps; 0: never
  CurvatureOptions curvature_;
  double label_smoothing_;
  std::int64_t smallest_pass_;
  Controller controller_;
  std::optional<PlanSchedule> replayed_;
  std::optional<BoundaryPolicy> boundary_;  // where layers may change to backpropagation and back
  std::optional<LossAlarm> alarm_;          // where layers train by the loss alone
  std::unique_ptr<CurvatureProbe> probe_;
  std::unique_ptr<FisherReplay> replay_;  // once a probe has shown that it can be captured
  at::Tensor probe_ids_;                  // where a captured probe reads its samples' numbers
  bool replays_ = true;                   // until something says that it cannot be
  PendingProbe pending_probe_;
  std::unique_ptr<RunCompression> compression_;
};

}  // namespace triaccel
