#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/device/side_stream.h"
#include "triaccel/layers/execution/layer_execution.h"
#include "triaccel/optim/gradient_control.h"
#include "triaccel/optim/optimizer.h"
#include "triaccel/optim/zeroth_order.h"
#include "triaccel/step/graph_cache.h"
#include "triaccel/step/step_snapshot.h"

namespace triaccel {

/// Applies gradients and frees them while backward still runs, a few megabytes at a time, on a side
/// stream. A layer whose gradient is not finite is skipped. Only for steps that nothing can stop
/// once they run (captured ones), of one pass, without clipping and without a loss scale.
class EarlyUpdates final : public GradientListener {
 public:
  EarlyUpdates(const LayerExecution& layers, GradientControl& gradients, Optimizer& optimizer,
               SideStream& side, at::Tensor learning_rates, std::vector<ParameterRef> parameters);

  /// `rehearse`: gradients are only freed, as they would be.
  void begin_step(bool rehearse);

  /// After forward: where a weight gets its gradient in several parts, all are applied at the end.
  void before_backward() { early_ = layers_.used_each_weight_once(); }

  void gradient_ready(const at::Tensor& weight, bool on_side_stream) override;

  /// Applies the rest; the whole step has then been decided.
  void end_backward();

 private:
  void apply();

  const LayerExecution& layers_;
  GradientControl& gradients_;
  Optimizer& optimizer_;
  SideStream& side_;
  at::Tensor learning_rates_;
  std::vector<ParameterRef> parameters_;
  bool rehearse_ = false;
  bool early_ = false;
  std::vector<at::Tensor>
      ready_;  // weights with pending gradients that were made on the side stream
  std::int64_t ready_bytes_ = 0;
};

/// How the passes over a batch are run once.
struct PassRules {
  bool backward = true;   // they leave gradients
  at::Tensor score = {};  // what their loss and accuracy are added to; undefined: the step's own
  // Where pass number `pass` leaves its losses; empty: nowhere.
  std::function<at::Tensor(std::int64_t pass, std::int64_t rows, std::int64_t classes)> losses = {};
  // Multiplies them all, after the last pass.
  std::function<void(const at::Tensor& factor)> scale_losses = {};
};
using RunPasses = std::function<void(const PassRules&)>;

/// Where the gradients of a step come from, and how they are applied.
class GradientStrategy {
 public:
  virtual ~GradientStrategy() = default;

  /// Before each step. True: the optimizer's states lie elsewhere in memory than before.
  virtual bool follow(const std::vector<LayerPlan>& layers) = 0;

  /// Whether steps may be captured and replayed.
  virtual bool can_capture() const { return true; }
  /// Whether some layers learn from estimates, at a learning rate of their own.
  virtual bool estimates() const { return false; }

  /// Before the passes; the listener for weight gradients that are ready, or null.
  virtual GradientListener* begin_step(std::int64_t passes, Enqueued enqueued) = 0;
  virtual void compute(StepSnapshot& snapshot, bool captured, const RunPasses& run_passes) = 0;
  virtual void before_backward() {}

  /// Applies the gradients. Only enqueues and allocates nothing.
  virtual void update(const at::Tensor& learning_rates) = 0;

  /// After a step that failed or only rehearsed.
  virtual void abandon_step(bool /*captured*/) {}
  /// After every step, captured or not.
  virtual void end_step(double /*zeroth_order_rate*/) {}

  /// What happened since the last report.
  virtual void report(StepReport&) {}
  virtual void start_interval() {}

  virtual ZerothOrder* zeroth_order() { return nullptr; }
};

/// Every layer is trained by backpropagation.
class BackpropGradients final : public GradientStrategy {
 public:
  /// `early`: for steps that are captured and have one pass; null: updates follow backward.
  BackpropGradients(GradientControl& gradients, Optimizer& optimizer,
                    std::unique_ptr<EarlyUpdates> early)
      : gradients_(gradients), optimizer_(optimizer), early_(std::move(early)) {}

  bool follow(const std::vector<LayerPlan>& layers) override;
  GradientListener* begin_step(std::int64_t passes, Enqueued enqueued) override;
  void compute(StepSnapshot&, bool, const RunPasses& run_passes) override { run_passes({}); }
  void before_backward() override;
  void update(const at::Tensor& learning_rates) override;

 private:
  GradientControl& gradients_;
  Optimizer& optimizer_;
  std::unique_ptr<EarlyUpdates> early_;
  bool updates_early_ = false;  // in this step
};

/// Every layer has a gradient by backpropagation, which is left for the caller to apply.
class LeftGradients final : public GradientStrategy {
 public:
  bool follow(const std::vector<LayerPlan>& layers) override;
  bool can_capture() const override { return false; }
  GradientListener* begin_step(std::int64_t, Enqueued) override { return nullptr; }
  void compute(StepSnapshot&, bool, const RunPasses& run_passes) override { run_passes({}); }
  void update(const at::Tensor&) override {}
};

/// The layers that the plan names learn from zeroth-order estimates, or keep their weights where
/// `frozen`; the others are trained by backpropagation.
class ZerothOrderGradients final : public GradientStrategy {
 public:
  ZerothOrderGradients(const ZerothOrderOptions& options, bool frozen,
                       const std::vector<ParameterRef>& parameters, GradientControl& gradients,
                       ElasticOptimizer& optimizer, c10::Device device);

  bool follow(const std::vector<LayerPlan>& layers) override;
  bool can_capture() const override { return !estimates() || !draws_.value_or(true); }
  bool estimates() const override { return zeroth_.active() && !frozen_; }
  GradientListener* begin_step(std::int64_t passes, Enqueued enqueued) override;
  void compute(StepSnapshot& snapshot, bool captured, const RunPasses& run_passes) override;
  void update(const at::Tensor& learning_rates) override;
  void abandon_step(bool captured) override;
  void end_step(double zeroth_order_rate) override;
  void report(StepReport& report) override;
  void start_interval() override { steps_taken_.clear(); }
  ZerothOrder* zeroth_order() override { return &zeroth_; }

 private:
  /// Runs the passes of a step over and over, each time with the weights where ZerothOrder wants
  /// them, with the same batch, the same random numbers and the same running statistics; the last
  /// run is the one that is scored, that updates the running statistics and that layers trained by
  /// backpropagation learn from. Leaves the weights where the last run saw them.
  void evaluate(StepSnapshot& snapshot, bool captured, const RunPasses& run_passes);

  ZerothOrder zeroth_;
  bool frozen_;
  GradientControl& gradients_;
  ElasticOptimizer& optimizer_;
  at::Tensor unscored_;                       // takes what does not count in the step's score
  std::vector<ZerothOrderStep> steps_taken_;  // since the last report
  std::optional<bool> draws_;  // whether forward passes draw random numbers: a captured step could
                               // not draw the same ones twice; the first step shows it
};

}  // namespace triaccel
