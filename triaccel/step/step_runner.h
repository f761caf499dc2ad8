#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/data/dataset.h"
#include "triaccel/device/memory_gauge.h"
#include "triaccel/ops/loss_data/step_inputs.h"
#include "triaccel/optim/elastic_optimizer.h"
#include "triaccel/optim/gradient_control.h"
#include "triaccel/optim/optimizer.h"
#include "triaccel/optim/weight_average.h"
#include "triaccel/optim/zeroth_order.h"
#include "triaccel/saved/error_gains.h"
#include "triaccel/saved/saved_sampler.h"
#include "triaccel/saved/saved_store.h"
#include "triaccel/step/early_updates.h"
#include "triaccel/step/forward_pass.h"
#include "triaccel/step/graph_cache.h"
#include "triaccel/step/saved_probe.h"
#include "triaccel/step/step_snapshot.h"
#include "triaccel/step/zeroth_order_losses.h"

namespace triaccel {

/// The network as one step sees it.
struct StepNetwork {
  std::function<at::Tensor(const at::Tensor&)> forward = {};  // inputs -> logits, classes last
  std::vector<ParameterRef> parameters = {};
  std::vector<at::Tensor> buffers = {};
  std::int64_t layer_count = 0;
  std::vector<at::Tensor> weights = {};  // of each layer; needed to run layers by their plans
};

/// For steps whose layers compute as the plan says, each in its own precision.
struct LayerOptions {
  KernelChoices kernels = {};
  bool device_has_bf16 = true;
  bool recompute_norms = false;  // as LayerExecutionOptions
};

struct StepRunnerOptions {
  OptimizerOptions optimizer = {};
  GradientControlOptions gradients = {};
  double label_smoothing = 0;
  double weight_average_decay = 0;           // 0: no average
  bool autocast = false;                     // the whole forward pass under torch's autocast …
  at::ScalarType autocast_type = at::kHalf;  // … to this type
  std::optional<LayerOptions> layers = {};   // or each layer in the plan's precision
  std::optional<ZerothOrderOptions> zeroth_order = {};  // for plans with such layers; FP32 only
  std::optional<SavedStoreOptions> saved = {};  // for plans that say how saved tensors are kept
  bool frozen_head = false;  // those layers keep their weights instead; nothing is estimated
  bool graphs = false;       // capture and replay whole steps where the device and stream allow it
};

/// Runs one step exactly as its plan says, or leaves everything as it was.
///
/// Nothing in run() waits for the device: losses, counts and gradient statistics gather there and
/// are read by collect(), once a control interval.
class StepRunner {
 public:
  StepRunner(StepNetwork network, const StepRunnerOptions& options, MemoryGauge& gauge,
             c10::Device device);

  /// Trains the samples `ids` (int64 on the device) in equal passes of about
  /// plan.micro_batch_size. Throws OutOfMemory when the device has no room; weights, buffers,
  /// optimizer and generator are then as before the call. Layers trained by the loss alone have a
  /// learning rate of their own.
  void run(const StepPlan& plan, const Dataset& data, const at::Tensor& ids,
           const GatherOptions& gather, double learning_rate, double zeroth_order_rate = 0);

  /// Runs such a step and takes all of it back: to see what memory it needs.
  void rehearse(const StepPlan& plan, const Dataset& data, const at::Tensor& ids,
                const GatherOptions& gather);

  /// Runs one forward pass of the samples `ids` under the plan's precisions, with every saved
  /// tensor kept as it is, and takes it back: who saves what, and samples of the values. Plans for
  /// saved tensors are for the last census. Waits for the device.
  std::vector<SavedSample> take_census(const StepPlan& plan, const Dataset& data,
                                       const at::Tensor& ids);

  /// Of another such pass, what shows how blocks of some of the last census's entries resemble each
  /// other.
  std::vector<SavedSample> channel_samples(const StepPlan& plan, const Dataset& data,
                                           const at::Tensor& ids,
                                           std::vector<std::int64_t> entries);

  /// The same for a forward and a backward pass: what errors of the last census's tensors would do
  /// to the gradients of weights, and what the codes of plan.saved do to the whole gradient.
  std::vector<ErrorGain> error_gains(const StepPlan& plan, const Dataset& data,
                                     const at::Tensor& ids);
  CompressionNoise code_noise(const StepPlan& plan, const Dataset& data, const at::Tensor& ids);

  const SavedCensus& census() const { return census_; }
  SavedStore* saved() { return saved_.get(); }

  /// What happened since the last call: loss, accuracy, gradients, memory. Waits for the device.
  /// The counters of steps, samples and time are the caller's to fill in.
  StepReport collect();

  /// Forgets what was not collected yet: after a restored state the next interval starts here.
  void start_interval();

  Optimizer& optimizer() { return *optimizer_; }
  GradientControl& gradient_control() { return gradients_; }
  WeightAverage* weight_average() { return average_.get(); }
  ZerothOrder* zeroth_order() { return zeroth_.get(); }

  /// How a forward pass computes under the last plan; for evaluating in between.
  ForwardRules forward_rules() const;

  /// Where whole steps are captured; null where they are not.
  GraphCache* graphs() { return graphs_.get(); }

  /// Makes `plan` the last one without running a step: to evaluate a restored state.
  void follow(const StepPlan& plan);

  /// Gives optimizer state to the layers that the plan trains by backpropagation and rounds the
  /// weights of the others to their grid; run() does so too. Before the optimizer is restored.
  void divide_layers(const StepPlan& plan);

 private:
  void require_all_layers(const StepPlan& plan) const;
  /// For the next step().
  void set_inputs(const StepPlan& plan, const at::Tensor& ids, double learning_rate,
                  double zeroth_order_rate);
  void run_captured(const StepPlan& plan, const Dataset& data, const at::Tensor& ids,
                    const GatherOptions& gather, std::int64_t passes, const GraphCache::Work& work);
  void step(std::int64_t passes, const Dataset& data, const GatherOptions& gather,
            Enqueued enqueued);
  void compute_gradients(std::int64_t passes, const Dataset& data, const at::Tensor& ids,
                         const GatherOptions& gather, EarlyUpdates* early, const PassRules& rules);
  bool estimates() const { return zeroth_ && zeroth_->active() && !options_.frozen_head; }
  void update(EarlyUpdates* early);
  bool updates_early(std::int64_t passes, Enqueued enqueued) const;
  void drop_gradients();
  void follow_saved(const StepPlan& plan);
  void probe_saved(const StepPlan& plan, const Dataset& data, const at::Tensor& ids,
                   const std::function<void(const SavedProbe&)>& look);

  StepNetwork network_;
  StepRunnerOptions options_;
  MemoryGauge& gauge_;
  std::unique_ptr<Optimizer> optimizer_;
  ElasticOptimizer* elastic_ = nullptr;  // the same, where layers may do without one
  GradientControl gradients_;
  std::unique_ptr<WeightAverage> average_;
  std::unique_ptr<ZerothOrder> zeroth_;  // null: every layer is trained by backpropagation
  std::vector<ZerothOrderStep> steps_taken_ = {};  // of it, since the last collect()
  std::optional<bool> draws_ = {};                 // whether its forward passes draw random numbers
  std::unique_ptr<LayerExecution> layers_;         // null: libtorch's own kernels
  std::unique_ptr<SideStreams> side_;              // with graphs
  std::unique_ptr<EarlyUpdates> early_;  // where updates need not wait for all of backward
  std::unique_ptr<SavedStore> saved_;    // null: autograd keeps what it saves
  SavedCensus census_ = {};
  bool keeps_coded_ = false;              // the last plan says how tensors are saved
  std::vector<SavedPlan> saved_by_ = {};  // what the store follows
  std::unordered_map<std::uint64_t, SavedCounts> saved_counts_ = {};  // by shape of the step
  std::uint64_t last_shape_ = 0;
  StepSnapshot snapshot_;
  StepInputs inputs_;
  std::unique_ptr<GraphCache> graphs_;  // null: every step is enqueued anew
  at::Tensor score_;                    // running loss and accuracy
  at::Tensor score_before_;             // the same before this step, for a step that fails
  at::Tensor unscored_;                 // takes what does not count in score_
  std::int64_t skipped_before_ = 0;     // skipped steps reported so far
};

}  // namespace triaccel
