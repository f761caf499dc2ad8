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
  double clip_norm = 0;       // clip the gradient's 2-norm to this; 0: never
  bool loss_scaling = false;  // dynamic, for FP16 gradients; false: the scale is 1
  double initial_loss_scale = 65536;
  std::int64_t growth_interval = 2000;  // clean steps before the scale doubles
};

/// What the host learns about the gradients once an interval.
struct GradientReport {
  std::vector<LayerSignals> layers = {};  // of the last step; index = LayerId
  double gradient_norm = 0;               // of the last step, unscaled, before clipping
  double loss_scale = 1;                  // of the next backward pass
  std::int64_t applied_steps = 0;         // in the run
  std::int64_t skipped_steps = 0;         // in the run
  std::int64_t consecutive_skips = 0;     // up to the last step
  // Of the first skipped step since clear_diagnosis(), -1 when there was none: its number in the
  // run, from 1, and the last layer in forward order whose gradient was not finite, where backward
  // met the overflow first.
  std::int64_t first_skipped_step = -1;
  std::int64_t first_skipped_layer = -1;
};

/// Measures all gradients, each in one pass, and decides on the device what becomes of the step:
/// skipped when one is not finite, clipped, with the loss scale grown or halved. Keeps each layer's
/// FP16 scale. A step is: backward, measure(), Optimizer::update, WeightAverage::update,
/// finish_step().
class GradientControl : public Stateful {
 public:
  /// `layer_count` signals are kept; the parameters' layers lie below it.
  GradientControl(const GradientControlOptions& options, std::vector<ParameterRef> parameters,
                  std::int64_t layer_count);

  /// Reads every parameter's grad() and decides; call between backward and Optimizer::update. Only
  /// enqueues and allocates nothing, as do its three parts.
  void measure();

  /// The parts of measure(), for gradients that are used up while backward still runs:
  /// start_gathering() forgets the step before; gather() adds the gradients that are there now to
  /// the moments of their layers, so each must be dropped (or kept from the next call) once it was
  /// counted; decide() closes the step, skipped when any layer was not finite. Between gather() and
  /// the drop, Optimizer::update with update_inputs(…, UpdateGate::Layer) may apply the gradients:
  /// unclipped, and not in layers that were not finite so far. One stream must order the calls.
  void start_gathering();
  void gather();
  void decide();

  /// What Optimizer::update reads: after decide(), or between gathers with UpdateGate::Layer.
  UpdateInputs update_inputs(const at::Tensor& learning_rates,
                             UpdateGate gate = UpdateGate::Step) const;

  /// Moves the layers' FP16 scales to where this step's maxima want them. Updates read gradients by
  /// the scale they were made with, so this comes after them and before the next backward pass,
  /// also when the step was skipped. Only enqueues and allocates nothing.
  void finish_step();

  /// Forgets the maxima that the layers of a backward pass recorded before it failed. Allocates
  /// nothing.
  void abandon_step();

  /// What decide() decided, for WeightAverage::update.
  const at::Tensor& step_control() const { return step_control_; }

  /// F32 scalar in device memory: multiply the loss by it before backward. A view that stays valid
  /// and changes as the scale does.
  const at::Tensor& loss_scale() const { return loss_scale_; }

  /// F32 [layers, 4] in device memory, laid out as ops/layer_scales.h says: for scaled_cast in the
  /// layers. A view that stays valid and changes as the scales do.
  const at::Tensor& layer_scales() const { return layer_scales_; }

  /// Forgets the first skipped step, so that the next one is reported. Only enqueues.
  void clear_diagnosis();

  /// One copy to the host; waits for the device.
  GradientReport read() const;

  /// Of that report alone: cheap enough for every step on a CPU. Waits for the device, too.
  std::int64_t consecutive_skips() const;

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  kernels::StepControlOptions options_;
  TensorBundle bundle_;
  std::int64_t layer_count_;
  at::Tensor board_;         // step control, layer scales, moments: one piece, so one copy reads it
  at::Tensor step_control_;  // views of the board
  at::Tensor loss_scale_;
  at::Tensor diagnosis_;
  at::Tensor layer_scales_;
  at::Tensor moments_;
  at::Tensor scratch_;
};

}  // namespace triaccel
