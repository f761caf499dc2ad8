#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "triaccel/data/epoch_order.h"
#include "triaccel/policies/learning_rate_schedule.h"
#include "triaccel/trainer/evaluate/evaluator.h"
#include "triaccel/trainer/loop/activation_profiler.h"
#include "triaccel/trainer/loop/curvature_meter.h"
#include "triaccel/trainer/loop/run_parts.h"
#include "triaccel/trainer/loop/step_engine.h"

namespace triaccel {

/// Steps of a network of libtorch modules, on a CPU or a GPU. Keeps references to what it is given.
class TorchEngine final : public StepEngine {
 public:
  TorchEngine(const RunConfig& config, RunParts& parts);
  /// Makes the parts of a built-in model.
  explicit TorchEngine(const RunConfig& config, UnderBudget under_budget);

  RunInfo info() const override;
  ControlSetup control_setup() const override;
  const std::vector<std::int64_t>& training_ids() const override;
  bool has_validation() const override { return !parts_.data.validation_ids.empty(); }
  std::vector<std::string> take_notices() override;
  void record_choices(RunConfig& config) const override;
  std::unique_ptr<Sink> files_in(const std::filesystem::path& directory) override;
  void complete(RunSummary& summary) const override;

  void start() override;
  std::int64_t samples_of_step(const StepPlan& plan, std::int64_t left) const override;
  void run(const StepPlan& plan, const Sampler& sampler, std::int64_t count,
           const StepPosition& at) override;
  void wait() override;
  StepReport collect() override;
  std::optional<CurvatureReport> probe_curvature(const Sampler& sampler,
                                                 std::int64_t step) override;
  std::optional<CurvatureReport> probed() override { return curvature_.take(); }
  ActivationProfile profile(const ProfileRequest& request, const StepPlan& plan,
                            const Sampler& sampler) override;
  std::int64_t skips_so_far() const override;
  bool scales_loss() const override { return parts_.method.loss_scaling; }
  Diagnosis diagnose(const StepPlan& plan, bool with_samples) override;
  EvaluationReport evaluate(bool validation, const StepPlan& plan,
                            const std::function<void()>& alive) override;
  std::string set_budget(const Budget& budget) override;
  MemoryReport take_peak() override;
  void release_cache() override { parts_.on.gauge.release_cache(); }
  void drop_captured() override {
    if (GraphCache* const graphs = parts_.runner->graphs()) graphs->clear();
  }
  SavedCheckpoint save(CheckpointStore& store, const CheckpointInfo& info,
                       std::vector<StateView> of_loop) override;
  void restore(const LoadedCheckpoint& checkpoint, const StepPlan& plan) override;

 private:
  TorchEngine(const RunConfig& config, std::unique_ptr<RunParts> owned);

  const RunConfig& config_;
  std::unique_ptr<RunParts> owned_;  // null: the caller's
  RunParts& parts_;
  EpochOrder order_;
  Evaluator evaluator_;
  LearningRateSchedule schedule_;
  CurvatureMeter curvature_;
  ActivationProfiler profiler_;
  std::vector<std::string> notices_;
  std::vector<at::Tensor> interval_ids_;  // samples of the steps since the last report
  std::vector<at::Tensor> reported_ids_;  // of those in it
  double learning_rate_ = 0;              // of the last step
  double zeroth_order_rate_ = 0;          // likewise
};

}  // namespace triaccel
