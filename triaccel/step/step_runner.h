#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/data/dataset.h"
#include "triaccel/device/memory_gauge.h"
#include "triaccel/ops/loss_data/step_inputs.h"
#include "triaccel/optim/optimizer.h"
#include "triaccel/optim/weight_average.h"
#include "triaccel/saved/recomputed_segments.h"
#include "triaccel/step/compressed_activations.h"
#include "triaccel/step/forward_pass.h"
#include "triaccel/step/gradient_strategy.h"
#include "triaccel/step/graph_cache.h"
#include "triaccel/step/saved_probe.h"
#include "triaccel/step/step_batch.h"
#include "triaccel/step/step_snapshot.h"

namespace triaccel {

/// For steps whose layers compute as the plan says, each in its own precision.
struct LayerOptions {
  KernelChoices kernels = {};
  bool device_has_bf16 = true;
  bool copy_weights = true;  // all to 16 bits at the start of a step, else each where it is used
  bool recompute_norms = false;   // as LayerExecutionOptions
  double recompute_segments = 0;  // share, as RecomputedSegments; the rest is kept as it is
  bool fuse = true;               // on a GPU; needs a forward function that reads no memory itself
};

struct StepRunnerOptions {
  OptimizerOptions optimizer = {};
  std::shared_ptr<Optimizer> own_optimizer = {};  // the caller's, in place of one made here
  GradientControlOptions gradients = {};
  double label_smoothing = 0;
  double weight_average_decay = 0;           // 0: no average
  bool autocast = false;                     // the whole forward pass under torch's autocast …
  at::ScalarType autocast_type = at::kHalf;  // … to this type
  std::optional<LayerOptions> layers = {};   // or each layer in the plan's precision
  std::optional<ZerothOrderOptions> zeroth_order =
      {};                                       // for plans with zeroth-order layers; FP32 only
  std::optional<SavedStoreOptions> saved = {};  // for plans that compress activations
  bool frozen_head = false;                     // zeroth-order layers keep their weights instead
  bool graphs = false;     // capture and replay whole steps where the device and stream allow it
  LossFunction loss = {};  // of the data set's steps; empty: cross-entropy
  /// Steps end with FP32 gradients in grad(), which the caller applies; there is no optimizer.
  bool leave_gradients = false;
};

/// Runs one step exactly as its plan says, or leaves everything as it was. Where gradients come
/// from, how saved activations are kept and how the work gets to the device are strategies:
/// GradientStrategy, CompressedActivations, StepExecution.
///
/// Nothing in run() waits for the device: losses, counts and gradient statistics gather there and
/// are read by collect(), once per control interval.
class StepRunner {
 public:
  StepRunner(StepNetwork network, const StepRunnerOptions& options, MemoryGauge& gauge,
             c10::Device device);

  /// Trains the samples of a batch in equal passes of about plan.micro_batch_size. Throws
  /// OutOfMemory when the device has no room; weights, buffers, optimizer and generators are then
  /// as before the call, as they are when a pass throws anything else. Layers with zeroth-order
  /// estimates have a learning rate of their own.
  void run(const StepPlan& plan, StepBatch& batch, double learning_rate,
           double zeroth_order_rate = 0);
  /// Of the samples `ids` (int64 on the device) of a data set.
  void run(const StepPlan& plan, const Dataset& data, const at::Tensor& ids,
           const GatherOptions& gather, double learning_rate, double zeroth_order_rate = 0);

  /// After a step with leave_gradients whose gradients could not be applied: buffers, generators
  /// and score are as before it. Gradients are dropped.
  void take_back();

  /// Takes statistics of the gradients that such a step left, for the next collect().
  void measure_gradients();

  /// For passes that the caller runs itself: how what they save is kept, and their mean loss, for
  /// the next collect().
  CompressedActivations& activations() { return activations_; }
  void add_loss(const at::Tensor& mean_loss, std::int64_t samples);

  /// Runs such a step and undoes all of it: to measure the memory it needs.
  void rehearse(const StepPlan& plan, const Dataset& data, const at::Tensor& ids,
                const GatherOptions& gather);
  /// After that, where steps are captured: the seconds of a replay, without those of the update.
  /// Captured steps are dropped.
  double replay_seconds(const StepPlan& plan, const Dataset& data, const at::Tensor& ids,
                        const GatherOptions& gather);

  /// Runs one forward pass over a batch under the plan's precisions, with every saved tensor kept
  /// as it is, and undoes it: which operations save what, and samples of the values. Plans for
  /// saved tensors are for the last census. Waits for the device.
  std::vector<SavedSample> take_census(const StepPlan& plan, StepBatch& batch);

  /// The same for a forward and a backward pass: what errors of the last census's tensors would do
  /// to the gradients of weights, and what compression by plan.saved does to the whole gradient.
  std::vector<ErrorGain> error_gains(const StepPlan& plan, StepBatch& batch);
  CompressionNoise compression_noise(const StepPlan& plan, StepBatch& batch);
  /// The relative squared error of the gradient under each of other plans for saved tensors.
  std::vector<double> gradient_errors(const StepPlan& plan,
                                      const std::vector<std::vector<SavedPlan>>& saved,
                                      StepBatch& batch);

  // The same over the samples `ids` of a data set.
  std::vector<SavedSample> take_census(const StepPlan& plan, const Dataset& data,
                                       const at::Tensor& ids) {
    DatasetBatch batch = samples_of(data, ids);
    return take_census(plan, batch);
  }
  std::vector<ErrorGain> error_gains(const StepPlan& plan, const Dataset& data,
                                     const at::Tensor& ids) {
    DatasetBatch batch = samples_of(data, ids);
    return error_gains(plan, batch);
  }
  CompressionNoise compression_noise(const StepPlan& plan, const Dataset& data,
                                     const at::Tensor& ids) {
    DatasetBatch batch = samples_of(data, ids);
    return compression_noise(plan, batch);
  }

  DatasetBatch samples_of(const Dataset& data, const at::Tensor& ids,
                          const GatherOptions& gather = {}) const {
    return {network_.forward, loss_, data, ids, gather};
  }

  /// Whether the next step takes as much memory as those that follow it.
  bool knows_segments() const { return !segments_ || segments_->knows_bytes(); }
  /// Segments of the last pass whose activations backward recomputed.
  std::size_t recomputed_segments() const { return segments_ ? segments_->recomputed() : 0; }

  const SavedCensus& census() const { return activations_.census(); }
  SavedStore* saved() { return activations_.store(); }

  /// What happened since the last call: loss, accuracy, gradients, memory. Waits for the device.
  /// The counters of steps, samples and time are the caller's to fill in.
  StepReport collect();

  /// Forgets what was not collected yet: after a restored state the next interval starts here.
  void start_interval();

  Optimizer& optimizer() { return *optimizer_; }
  GradientControl& gradient_control() { return gradients_; }
  WeightAverage* weight_average() { return average_.get(); }
  ZerothOrder* zeroth_order() { return strategy_->zeroth_order(); }

  /// How a forward pass computes under the last plan; for evaluating in between.
  ForwardRules forward_rules() const;

  /// Where whole steps are captured; null where they are not.
  GraphCache* graphs() { return execution_->graphs(); }

  /// Makes `plan` the last one without running a step: to evaluate a restored state.
  void follow(const StepPlan& plan);

  /// Gives optimizer state to the layers that the plan trains by backpropagation and rounds the
  /// weights of the others to their grid; run() does so too. Call it before restoring the
  /// optimizer.
  void divide_layers(const StepPlan& plan);

 private:
  void require_all_layers(const StepPlan& plan) const;
  /// All that comes before a step and is never captured.
  void prepare(const StepPlan& plan, StepBatch& batch, std::int64_t passes, double learning_rate,
               double zeroth_order_rate);
  /// For the next step().
  void set_inputs(const StepPlan& plan, const at::Tensor& ids, double learning_rate,
                  double zeroth_order_rate);
  void step(StepBatch& batch, const std::vector<std::int64_t>& passes, Enqueued enqueued);
  using Rehearsal = std::function<void(const GraphCache::Work& step)>;
  void rehearse(const StepPlan& plan, DatasetBatch batch, const Rehearsal& rehearsal);
  void run_passes(StepBatch& batch, const std::vector<std::int64_t>& passes, const PassRules& rules,
                  bool captured);
  void update();
  /// Loss so far, and what saved activations count, as before the step.
  void put_back_counters();
  void drop_gradients();
  void scale_gradients(const at::Tensor& factor);
  at::Tensor loss_scale() const;
  void probe_saved(const StepPlan& plan, StepBatch& batch,
                   const std::function<void(const SavedProbe&)>& probe);

  StepNetwork network_;
  StepRunnerOptions options_;
  DatasetBatch::Loss loss_;
  c10::Device device_;
  MemoryGauge& gauge_;
  std::shared_ptr<Optimizer> optimizer_;  // null: gradients are left to the caller's
  GradientControl gradients_;
  std::unique_ptr<WeightAverage> average_;        // null: none
  std::unique_ptr<LayerExecution> layers_;        // null: libtorch's own kernels
  std::unique_ptr<RecomputedSegments> segments_;  // null: activations of segments are saved
  std::unique_ptr<StepExecution> execution_;
  StepSnapshot snapshot_;
  StepInputs inputs_;
  std::unique_ptr<GradientStrategy> strategy_;
  CompressedActivations activations_;
  at::Tensor score_;                 // running loss and accuracy
  at::Tensor score_before_;          // the same before this step, for a step that fails
  std::int64_t skipped_before_ = 0;  // skipped steps reported so far
};

}  // namespace triaccel
