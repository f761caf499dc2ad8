#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "triaccel/base/clock.h"
#include "triaccel/core/layer_registry.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/device/memory_gauge.h"
#include "triaccel/policies/controller.h"
#include "triaccel/policies/memory/memory_plan.h"
#include "triaccel/signals/curvature_probe.h"
#include "triaccel/step/step_batch.h"
#include "triaccel/step/step_runner.h"
#include "triaccel/trainer/attach/held_budget.h"
#include "triaccel/trainer/config/run_config.h"
#include "triaccel/trainer/loop/activation_profiler.h"
#include "triaccel/trainer/loop/run_progress.h"

namespace triaccel {

struct AttachOptions {
  std::int64_t budget_bytes = 0;  // for all tensors of the process on the device; 0: none
  Choice<LayerPrecision> precision = LayerPrecision::Auto;
  Choice<PolicySet> policy = PolicySet::Robust;
  std::int64_t control_interval = 10;       // steps between two decisions
  std::int64_t smallest_pass = 1;           // samples; batch norm needs two
  std::int64_t planned_pass = 0;            // samples: measured to be best in the budget; 0: none
  RunConfig::Activations activations = {};  // how they are kept for backward; raw unless said
  Choice<CurvatureSource> curvature = CurvatureSource::Off;  // for learning rates of layers
  std::int64_t curvature_every = 200;                        // steps
  double momentum = 0;   // of the caller's optimizer, which they are for
  bool traced = false;   // the caller computes layers in their precisions
  bool elastic = false;  // the batch size follows the plan; needs a budget
  bool reports = false;  // every interval, also where nothing is to be decided
  /// Steps apply gradients themselves, with learning rates of this optimizer's own, and are
  /// captured where the device and the current stream allow it; null: gradients are left in grad().
  std::shared_ptr<Optimizer> optimizer = {};
  std::int64_t applied_steps = 0;  // by that optimizer so far
};

/// The control loop around a training loop that somebody else wrote, with a model, a loss and an
/// optimizer of their own: chooses the precision of every layer and the size of the passes, and
/// runs out of memory for nobody. Gradients are left in grad(), in FP32, or applied by an optimizer
/// that the caller hands over.
class AttachedTraining {
  struct PlannedPass;

 public:
  /// `layers` of the network, whose forward function is not used.
  AttachedTraining(StepNetwork network, const LayerRegistry& layers, const AttachOptions& options,
                   c10::Device device);
  ~AttachedTraining();  // lifts the budget
  AttachedTraining(const AttachedTraining&) = delete;
  AttachedTraining& operator=(const AttachedTraining&) = delete;

  /// Runs forward and backward over a batch, whose parts no pass joins, in passes that fit, as
  /// often as it takes, and returns its mean loss, on the device. Throws OutOfMemory where the
  /// smallest pass does not fit, with everything as before the call.
  at::Tensor backward(const std::vector<std::int64_t>& parts, const ClosureBatch::Closure& closure);

  /// With an optimizer: a whole step over such a batch; returns its mean loss. Steps of equal keys
  /// are the same work on the same memory: the closure may not be called for any but the first.
  at::Tensor step(const std::vector<std::int64_t>& parts, const ClosureBatch::Closure& closure,
                  std::uint64_t key);

  /// The gradients of the last backward() or step() have been applied, or will be, at this learning
  /// rate of the caller's schedule; they are still there.
  void finish_step(double learning_rate = 0);

  /// They could not be, for lack of memory: the next try will have smaller passes. Everything is as
  /// before backward(). False: there are none.
  bool take_back();

  /// The last backward() is undone: everything is as before it.
  void undo() { runner_->take_back(); }

  /// From now on layers keep the precisions that they have.
  void hold_precision() { holds_precision_ = true; }

  const StepPlan& plan() const { return plan_; }

  /// Of the batch that it started with, also after restore(); 0: there was none.
  std::int64_t first_samples() const { return first_samples_; }
  std::string activations() const { return options_.activations.keep.name(); }
  const std::vector<std::string>& layer_names() const { return names_; }

  /// Around forward passes of the caller's own, in training or evaluation: layers compute as
  /// planned. On one thread; not around backward().
  void enter_precision();
  void leave_precision();

  /// Around one forward pass of the caller's own, and its backward pass or not: what it saves is
  /// kept as planned, once profile() has measured what there is.
  void enter_activations();
  void leave_activations();
  /// Measures what a forward pass over some samples of a batch saves, and plans how to keep it.
  void profile(std::int64_t samples, const ClosureBatch::Closure& closure);

  /// A step whose passes the caller has run, with this mean loss; its gradients are still there.
  void finish_own_step(std::int64_t samples, const at::Tensor& mean_loss);

  /// How much memory steps over such a batch take in one pass or in several, and how fast they are,
  /// by the time and memory of a few smaller ones that fit, which are undone: all ways to split it.
  /// What the process holds now counts as weights. Throws OutOfMemory where none fits.
  std::vector<MemoryPlan> memory_plans(std::int64_t samples, const ClosureBatch::Closure& closure);

  /// The best of them in the budget; nothing where none fits.
  std::optional<MemoryPlan> best_plan(std::int64_t samples, const ClosureBatch::Closure& closure);

  /// What happened since the last report. Waits for the device. Decisions see all of it, too.
  StepReport report();

  /// Steps that were skipped since the last call, as far as reports have told.
  std::int64_t take_skipped() { return std::exchange(uncounted_skips_, 0); }

  /// The report behind the last decision, once; nothing where there was none since.
  std::optional<StepReport> take_decided() { return std::exchange(decided_, std::nullopt); }

  /// What people should know and were not told yet: out of memory and what was done about it.
  std::vector<std::string> take_notices() { return std::exchange(notices_, {}); }
  /// What was decided since, for those who want to follow it.
  std::vector<std::string> take_events() { return std::exchange(events_, {}); }

  /// Plan, controller and gradient statistics, by name.
  /// Waits for the device: what was measured since the last decision is part of it.
  std::vector<StateView> state();
  void restore(const StateMap& saved);

 private:
  StepPlan starting_plan() const;
  void start(std::int64_t samples);
  /// Runs passes by `run`, in smaller ones where memory is short.
  void run_in_memory(const std::vector<std::int64_t>& parts, const ClosureBatch::Closure& closure,
                     const std::function<void(ClosureBatch&)>& run);
  StepPlan plan_for(std::int64_t samples) const;
  bool shrink(const StepPlan& failed);
  /// For an error: the budget, what is taken of it, and what would lower that.
  std::string room_text() const;
  void decide();
  void profile_if_due(std::int64_t samples, const ClosureBatch::Closure& closure,
                      bool also_if_restored);
  void profile_once(std::int64_t samples, const ClosureBatch::Closure& closure);
  void probe(std::int64_t samples, const ClosureBatch::Closure& closure);
  bool decides() const;
  /// Of a step of equal passes, which is undone.
  PassSample measure_step(std::int64_t pass, std::int64_t passes,
                          const ClosureBatch::Closure& closure);
  /// Of passes of up to so many samples; nothing where not even the smallest fits.
  std::optional<PassCost> measure_passes(std::int64_t passes, std::int64_t most, double fixed_bytes,
                                         const ClosureBatch::Closure& closure);

  AttachOptions options_;
  c10::Device device_;
  std::vector<LayerKind> kinds_;
  std::vector<bool> normalized_;
  std::vector<std::string> names_;
  MemoryGauge gauge_;
  std::unique_ptr<HeldBudget> budget_;  // null: none
  std::unique_ptr<StepRunner> runner_;
  std::unique_ptr<ActivationProfiler> profiler_;  // null: activations are raw
  std::unique_ptr<CurvatureProbe> probe_;         // null: learning rates are the caller's
  std::optional<CurvatureReport> curvature_;      // since the last report
  PendingInterval pending_;                       // what reports have taken since the last decision
  std::unique_ptr<Controller> control_;           // null before the first batch
  StepPlan plan_;                                 // batch_size: of the first batch
  StepPlan ran_;                                  // by the last backward()
  std::unique_ptr<PlannedPass> own_pass_;         // between enter_precision() and leave_precision()
  std::unique_ptr<SavedTensorScope> own_saved_;   // enter_activations() and leave_activations()
  bool keeps_own_ = false;                        // between these two
  bool began_ = false;                            // with a first batch, also after restore()
  bool knows_saved_ = false;                      // what a pass saves has been measured
  std::vector<std::string> notices_, events_;
  std::optional<StepReport> decided_;
  at::Tensor loss_;  // of the last step(), F32
  Stopwatch interval_;
  std::int64_t steps_ = 0, samples_ = 0, samples_of_step_ = 0;
  std::int64_t first_samples_ = 0;  // of the batch that the rules started with
  std::int64_t profiled_at_ = -1;   // step
  std::int64_t uncounted_skips_ = 0;
  std::int64_t interval_steps_ = 0, interval_samples_ = 0, interval_retries_ = 0;
  std::int64_t interval_largest_ = 0;  // samples of a step
  double learning_rate_ = 0;
  bool holds_precision_ = false;
};

}  // namespace triaccel
