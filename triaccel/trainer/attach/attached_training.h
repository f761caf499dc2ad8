#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
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
#include "triaccel/step/step_batch.h"
#include "triaccel/step/step_runner.h"
#include "triaccel/trainer/config/run_config.h"
#include "triaccel/trainer/loop/activation_profiler.h"

namespace triaccel {

struct AttachOptions {
  std::int64_t budget_bytes = 0;  // for all tensors of the process on the device; 0: none
  Choice<LayerPrecision> precision = LayerPrecision::Auto;
  Choice<PolicySet> policy = PolicySet::Robust;
  std::int64_t control_interval = 10;       // steps between two decisions
  std::int64_t smallest_pass = 1;           // samples; batch norm needs two
  RunConfig::Activations activations = {};  // how they are kept for backward; raw unless said
};

/// The control loop around a training loop that somebody else wrote, with a model, a loss and an
/// optimizer of their own: chooses the precision of every layer and the size of the passes, and
/// runs out of memory for nobody. Gradients are left in grad(), in FP32.
class AttachedTraining {
  struct PlannedPass;

 public:
  /// `layers` of the network, whose forward function is not used.
  AttachedTraining(StepNetwork network, const LayerRegistry& layers, const AttachOptions& options,
                   c10::Device device);
  ~AttachedTraining();  // lifts the budget
  AttachedTraining(const AttachedTraining&) = delete;
  AttachedTraining& operator=(const AttachedTraining&) = delete;

  /// Runs forward and backward over a batch in passes that fit, as often as it takes, and returns
  /// its mean loss, on the device. Throws OutOfMemory where the smallest pass does not fit, with
  /// everything as before the call.
  at::Tensor backward(std::int64_t samples, const ClosureBatch::Closure& closure);

  /// The gradients of the last backward() have been applied, or will be; they are still there.
  void finish_step();

  /// They could not be, for lack of memory: the next try will have smaller passes. Everything is as
  /// before backward(). False: there are none.
  bool take_back();

  const StepPlan& plan() const { return plan_; }
  const std::vector<std::string>& layer_names() const { return names_; }

  /// Around passes of the caller's own, such as an evaluation: layers compute as planned. On one
  /// thread; not around backward().
  void enter_precision();
  void leave_precision();

  /// What happened since the last report. Waits for the device.
  StepReport report();

  /// The report behind the last decision, once; nothing where there was none since.
  std::optional<StepReport> take_decided() { return std::exchange(decided_, std::nullopt); }

  /// What people should know and were not told yet: out of memory and what was done about it.
  std::vector<std::string> take_notices() { return std::exchange(notices_, {}); }
  /// What was decided since, for those who want to follow it.
  std::vector<std::string> take_events() { return std::exchange(events_, {}); }

  /// Plan, controller and gradient statistics, by name.
  std::vector<StateView> state() const;
  void restore(const StateMap& saved);

 private:
  void start(std::int64_t samples);
  StepPlan plan_for(std::int64_t samples) const;
  bool shrink(const StepPlan& failed);
  void decide();
  void profile(bool first, std::int64_t samples, const ClosureBatch::Closure& closure);
  bool decides() const;

  AttachOptions options_;
  c10::Device device_;
  std::vector<LayerKind> kinds_;
  std::vector<std::string> names_;
  MemoryGauge gauge_;
  std::unique_ptr<StepRunner> runner_;
  std::unique_ptr<ActivationProfiler> profiler_;  // null: activations are raw
  std::unique_ptr<Controller> control_;           // null before the first batch
  StepPlan plan_;                                 // batch_size: of the first batch
  StepPlan ran_;                                  // by the last backward()
  std::unique_ptr<PlannedPass> evaluation_;       // between enter_precision() and leave_precision()
  std::vector<std::string> notices_, events_;
  std::optional<StepReport> decided_;
  Stopwatch interval_;
  std::int64_t steps_ = 0, samples_ = 0, samples_of_step_ = 0;
  std::int64_t interval_steps_ = 0, interval_samples_ = 0, interval_retries_ = 0;
};

}  // namespace triaccel
