#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/checkpoint/checkpoint_store.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/policies/controller.h"
#include "triaccel/telemetry/sink.h"
#include "triaccel/trainer/config/run_config.h"
#include "triaccel/trainer/measure/diagnosis.h"

namespace triaccel {

// Files of a checkpoint.
inline constexpr const char* kWeightsFile = "weights.safetensors";      // a plain state_dict
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";  // and loss scale, average
inline constexpr const char* kTrainerFile = "trainer.safetensors";  // counters, order, generators

inline const StateMap& file_of(const LoadedCheckpoint& checkpoint, const char* name) {
  const auto found = checkpoint.files.find(name);
  if (found == checkpoint.files.end())
    throw StorageError(text("the checkpoint of step ", checkpoint.info.step, " has no ", name));
  return found->second;
}

/// Where in a run a step is.
struct StepPosition {
  std::int64_t step = 0;               // optimizer steps done before it
  std::int64_t scheduled_samples = 0;  // of the learning rate's schedule, likewise
  double epoch = 0;                    // samples trained over the size of the training set
};

/// What runs the steps that a TrainingLoop asks for, and measures them: libtorch (TorchEngine) or
/// integers alone (Int8Engine). Plans go in, reports come out.
///
/// What an engine does not have (curvature, loss scales, compressed activations) it need not
/// override, and its control setup asks for none of it.
class StepEngine {
 public:
  virtual ~StepEngine() = default;

  /// Describes the run for sinks; the caller fills in what is the same for every engine.
  virtual RunInfo info() const = 0;
  virtual ControlSetup control_setup() const = 0;
  virtual const std::vector<std::int64_t>& training_ids() const = 0;
  virtual bool has_validation() const = 0;
  /// Messages for the user since the last call.
  virtual std::vector<std::string> take_notices() = 0;
  /// Writes choices that were measured into a new run's configuration: resumed, it repeats them.
  virtual void record_choices(RunConfig&) const {}
  /// A sink that writes the files only this engine has, into a run directory.
  virtual std::unique_ptr<Sink> files_in(const std::filesystem::path& directory) = 0;
  virtual void complete(RunSummary& summary) const = 0;

  /// Before the first step of a session.
  virtual void start() {}
  /// Samples of a step when `left` of an epoch are left.
  virtual std::int64_t samples_of_step(const StepPlan& plan, std::int64_t left) const {
    return std::min(plan.batch_size, left);
  }
  /// Trains the sampler's next `count` samples and may return before the device is done. Throws
  /// OutOfMemory, with everything as before the call.
  virtual void run(const StepPlan& plan, const Sampler& sampler, std::int64_t count,
                   const StepPosition& at) = 0;
  /// Returns once all enqueued steps are done.
  virtual void wait() {}
  /// What the steps since the last call measured; counters and times are the caller's to fill in.
  virtual StepReport collect() = 0;

  /// Measures curvature on the sampler's next samples. Empty while it is still being computed:
  /// probed() returns it later.
  virtual std::optional<CurvatureReport> probe_curvature(const Sampler&, std::int64_t /*step*/) {
    return {};
  }
  virtual std::optional<CurvatureReport> probed() { return {}; }
  /// Measures activations under a plan. Throws OutOfMemory where not even the values can be.
  virtual ActivationProfile profile(const ProfileRequest& request, const StepPlan&,
                                    const Sampler&) {
    return {.kind = request.kind};
  }

  /// Consecutive skipped steps, as far as is known without synchronizing with the device.
  virtual std::int64_t skips_so_far() const { return 0; }
  /// Whether a dynamic loss scale makes occasional skipped steps normal.
  virtual bool scales_loss() const { return false; }
  /// Checks the weights and, if asked, the last interval's samples for non-finite values.
  virtual Diagnosis diagnose(const StepPlan&, bool /*with_samples*/) { return {}; }

  /// Loss and accuracy on the held-out training samples or on the test set.
  virtual EvaluationReport evaluate(bool validation, const StepPlan& plan,
                                    const std::function<void()>& alive) = 0;

  /// Another memory budget from now on. Returns a message for the user; throws UsageError where
  /// there is none to change.
  virtual std::string set_budget(const Budget&) {
    throw UsageError("this method has no memory budget that could change");
  }
  /// The most memory used since the last call.
  virtual MemoryReport take_peak() = 0;
  virtual void release_cache() {}
  /// Captured steps go, with the memory that they hold; they are captured again when needed.
  virtual void drop_captured() {}

  /// Saves its state together with that of the loop, which goes into kTrainerFile.
  virtual SavedCheckpoint save(CheckpointStore& store, const CheckpointInfo& info,
                               std::vector<StateView> of_loop) = 0;
  /// `plan` is the current plan afterwards.
  virtual void restore(const LoadedCheckpoint& checkpoint, const StepPlan& plan) = 0;
};

}  // namespace triaccel
