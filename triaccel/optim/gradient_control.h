#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_report.h"
#include "triaccel/kernels/update/step_control.h"
#include "triaccel/ops/tensors/tensor_bundle.h"
#include "triaccel/ops/update/multi_tensor.h"

namespace triaccel {

struct GradientControlOptions {
  double clip_norm = 0;       // maximum 2-norm of the gradient; 0: no clipping
  bool loss_scaling = false;  // dynamic, for FP16 gradients; false: the scale is 1
  double initial_loss_scale = 65536;
  std::int64_t growth_interval = 2000;  // finite steps before the scale doubles
};

/// Gradient statistics read by the host once per interval.
struct GradientReport {
  std::vector<LayerSignals> layers = {};  // of the last step; index = LayerId
  double gradient_norm = 0;               // of the last step, unscaled, before clipping
  double loss_scale = 1;                  // of the next backward pass
  std::int64_t applied_steps = 0;         // in the run
  std::int64_t skipped_steps = 0;         // in the run
  std::int64_t consecutive_skips = 0;     // up to the last step
  // The first skipped step since clear_diagnosis(), -1 if none: its number in the run, from 1, and
  // the last layer in forward order with a non-finite gradient, where backward overflowed first.
  std::int64_t first_skipped_step = -1;
  std::int64_t first_skipped_layer = -1;
};

/// Measures all gradients in one pass and decides on the device whether the step is skipped
/// (non-finite gradients), clipping, and the loss scale. Maintains each layer's FP16 scale. A step
/// is: backward, measure(), Optimizer::update, WeightAverage::update, finish_step().
class GradientControl : public Stateful {
 public:
  /// Keeps `layer_count` signals; the parameters' layers are below it.
  GradientControl(const GradientControlOptions& options, std::vector<ParameterRef> parameters,
                  std::int64_t layer_count);

  /// Reads every parameter's grad() and decides; call between backward and Optimizer::update. Only
  /// enqueues work and does not allocate, like its three parts.
  void measure();

  /// The parts of measure(), for gradients that are applied while backward is running:
  /// start_gathering() resets the previous step; gather() adds the current gradients to the
  /// statistics of their layers, so each must be freed (or excluded from the next call) once
  /// counted; decide() ends the step, which is skipped if any layer was non-finite. Between
  /// gather() and freeing, Optimizer::update with update_inputs(…, UpdateGate::Layer) may apply the
  /// gradients: unclipped, and not in layers that were non-finite so far. All calls must be on one
  /// stream.
  void start_gathering();
  void gather();
  void decide();

  /// Inputs of Optimizer::update: after decide(), or between gathers with UpdateGate::Layer.
  UpdateInputs update_inputs(const at::Tensor& learning_rates,
                             UpdateGate gate = UpdateGate::Step) const;

  /// Updates the layers' FP16 scales from the maxima of this step. Call after the updates, which
  /// need the old scales, and before the next backward pass, also for skipped steps. Only enqueues
  /// work and does not allocate.
  void finish_step();

  /// Discards the maxima recorded by a failed backward pass. Does not allocate.
  void abandon_step();

  /// The decision of decide(), for WeightAverage::update.
  const at::Tensor& step_control() const { return step_control_; }

  /// F32 scalar in device memory: multiply the loss by it before backward. A view that stays valid
  /// and changes as the scale does.
  const at::Tensor& loss_scale() const { return loss_scale_; }

  /// F32 [layers, 4] in device memory, laid out as ops/update/layer_scales.h says: for scaled_cast
  /// in the layers. A view that stays valid and changes as the scales do.
  const at::Tensor& layer_scales() const { return layer_scales_; }

  /// For gradients of a network that has been trained before: AdamW counts on from there.
  void set_applied_steps(std::int64_t steps);
  /// Waits for the device.
  std::int64_t applied_steps() const;

  /// Resets the first skipped step, so that the next one is reported. Only enqueues work.
  void clear_diagnosis();

  /// One copy to the host; synchronizes with the device.
  GradientReport read() const;

  /// Of that report alone: cheap enough for every step on a CPU. Waits for the device, too.
  std::int64_t consecutive_skips() const;

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  kernels::StepControlOptions options_;
  float first_loss_scale_;
  TensorBundle bundle_;
  std::int64_t layer_count_;
  at::Tensor board_;  // step control, layer scales, moments: contiguous, so that one copy reads it
  at::Tensor step_control_;  // views of the board
  at::Tensor loss_scale_;
  at::Tensor diagnosis_;
  at::Tensor layer_scales_;
  at::Tensor moments_;
  at::Tensor scratch_;
};

}  // namespace triaccel
