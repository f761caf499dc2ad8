#include "triaccel/ops/loss_data/step_inputs.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {

StepInputs::StepInputs(std::int64_t layer_count, bool has_zeroth_order, c10::Device device)
    : ids_(at::empty({0}, at::TensorOptions(at::kLong).device(device))),
      learning_rates_(at::zeros({layer_count}, at::TensorOptions(at::kFloat).device(device))),
      scales_(at::ones_like(learning_rates_)) {
  places_ = {.learning_rates = learning_rates_.mutable_data_ptr<float>(),
             .scales = scales_.const_data_ptr<float>(),
             .layers = layer_count};
  if (!has_zeroth_order) return;
  zeroth_order_scales_ = at::zeros_like(learning_rates_);
  places_.zeroth_order_scales = zeroth_order_scales_.const_data_ptr<float>();
}

bool StepInputs::make_room(std::int64_t samples) {
  if (ids_.numel() >= samples) return false;
  ids_ = at::empty({samples}, ids_.options());
  places_.ids = ids_.mutable_data_ptr<std::int64_t>();
  return true;
}

void StepInputs::set(const std::vector<LayerPlan>& layers, const at::Tensor& ids,
                     double learning_rate, double zeroth_order_rate) {
  const at::NoGradGuard no_grad;
  check_contiguous("StepInputs::set", "ids", ids, ids_.device(), at::kLong, {-1});
  ensure(ids.numel() <= ids_.numel(), "make_room() comes first");
  if (scaled_for_ != layers) {
    std::vector<float> scales, zeroth_order_scales;
    for (const LayerPlan& layer : layers) {
      const bool backprop = layer.gradient == GradientSource::Backprop;
      scales.push_back(backprop ? layer.learning_rate_scale : 0);
      zeroth_order_scales.push_back(backprop ? 0 : layer.learning_rate_scale);
    }
    scales_.copy_(at::tensor(scales));
    if (zeroth_order_scales_.defined()) zeroth_order_scales_.copy_(at::tensor(zeroth_order_scales));
    scaled_for_ = layers;
  }
  source_ = ids;
  places_.samples = ids.numel();
  inputs_ = {.ids = source_.const_data_ptr<std::int64_t>(),
             .learning_rate = static_cast<float>(learning_rate),
             .zeroth_order_rate = static_cast<float>(zeroth_order_rate)};
}

void StepInputs::place() const {
  dispatch<kernels::cpu::place_step_inputs, kernels::cuda::place_step_inputs>(
      "StepInputs::place", ids_.device(), inputs_, places_);
}

KernelArguments StepInputs::replay_arguments() {
  return {.kernel = kernels::cuda::step_inputs_kernel(), .values = arguments_};
}

}  // namespace triaccel
