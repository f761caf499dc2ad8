#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/update/gradient_moments.h"
#include "triaccel/kernels/update/step_control.h"
#include "triaccel/kernels/update/update_gate.h"
#include "triaccel/kernels/update/weight_average.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_bundle.h"

namespace triaccel {

using kernels::UpdateGate;

/// What an update reads in addition to parameters and gradients, all on their device.
/// GradientControl::update_inputs() fills it in.
struct UpdateInputs {
  at::Tensor learning_rates;  // F32 [layers]
  at::Tensor step_control;    // U8 [sizeof(kernels::StepControl)]
  at::Tensor layer_scales;    // as in layer_scales.h; undefined: all 1
  at::Tensor moments;         // U8 [layers * sizeof(kernels::LayerMoments)]; for UpdateGate::Layer
  UpdateGate gate = UpdateGate::Step;
  std::int64_t begun_after = 0;  // applied steps of the run before the optimizer's state began
};

/// A step control tensor, U8 [sizeof(kernels::StepControl)], as kernels take it; UsageError unless
/// it is one and lies on `device`.
kernels::StepControl* step_control_of(std::string_view who, const at::Tensor& step_control,
                                      const at::Device& device);

// Each function checks its tensors and enqueues on the current stream.
// `step_control`, `moments` and `layer_scales` are as in UpdateInputs, all on the bundle's device.

/// The scratch add_gradient_moments needs: U8, on the device of the bundle.
at::Tensor moments_scratch(const TensorBundle& bundle);

void clear_moments(const at::Tensor& step_control, const at::Tensor& layer_scales,
                   const at::Tensor& moments);
void add_gradient_moments(const TensorBundle& bundle, const at::Tensor& step_control,
                          const at::Tensor& layer_scales, const at::Tensor& scratch,
                          const at::Tensor& moments);
void decide_step(const at::Tensor& step_control, const at::Tensor& moments,
                 const kernels::StepControlOptions& options);
void update_layer_scales(const at::Tensor& layer_scales, const at::Tensor& moments);
void average_weights(const TensorBundle& bundle, const at::Tensor& step_control,
                     const kernels::WeightAverageStep& step);
void swap_weights(const TensorBundle& bundle);

/// `inputs` as kernels take them; UsageError unless they fit the bundle.
kernels::UpdateInputs kernel_inputs(std::string_view who, const TensorBundle& bundle,
                                    const UpdateInputs& inputs);

/// Updates all parameters that have a gradient by an optimizer's kernel, such as
///   update_tensors<kernels::cpu::sgd_update, kernels::cuda::sgd_update>(who, bundle, inputs,
///   step).
template <auto on_cpu, auto on_cuda, typename... Options>
void update_tensors(std::string_view who, const TensorBundle& bundle, const UpdateInputs& inputs,
                    const Options&... options) {
  const kernels::UpdateInputs ours = kernel_inputs(who, bundle, inputs);
  dispatch<on_cpu, on_cuda>(who, bundle.device(), bundle.with_gradients(), ours, options...);
}

/// Tensors and their saved copies, checked once. Their memory must stay where it is.
class RestorePairs {
 public:
  /// live[i] and saved[i] have one shape, type, memory order and device, are dense, and hold whole
  /// 32-bit words (F32, int64, ...). There may be none. `who` names the public call.
  RestorePairs(std::string who, std::vector<at::Tensor> live, std::vector<at::Tensor> saved);

  /// These only enqueue and allocate nothing.
  void save() const;     // copies live to saved
  void restore() const;  // copies saved to live
  /// Likewise when the step of `step_control` (GradientControl's) is skipped; else touches nothing.
  void restore_if_skipped(const at::Tensor& step_control) const;

 private:
  std::string who_;
  std::vector<at::Tensor> live_, saved_;  // keep the memory alive
  std::vector<kernels::TensorEntry> entries_;
};

}  // namespace triaccel
