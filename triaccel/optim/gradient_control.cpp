#include "triaccel/optim/gradient_control.h"

#include <ATen/ATen.h>

#include <cstring>

#include "triaccel/base/error.h"
#include "triaccel/ops/tensors/tensor_state.h"
#include "triaccel/ops/update/layer_scales.h"
#include "triaccel/ops/update/multi_tensor.h"

namespace triaccel {
namespace {

constexpr std::int64_t kControlBytes = sizeof(kernels::StepControl);
constexpr std::int64_t kScaleBytes = sizeof(kernels::LayerScale);
constexpr std::int64_t kMomentsBytes = sizeof(kernels::LayerMoments);
constexpr const char* kScaleState = "gradient_control/loss_scale";
constexpr const char* kLayerScaleState = "gradient_control/layer_scales";
constexpr const char* kCounterState = "gradient_control/counters";
constexpr const char* kScaledState = "gradient_control/scaled_loss";  // missing in old checkpoints

kernels::StepControlOptions kernel_options(const GradientControlOptions& options) {
  constexpr std::string_view who = "GradientControl";
  require(options.clip_norm >= 0, who, "clip_norm must not be negative, got ", options.clip_norm);
  require(options.growth_interval > 0 && options.growth_interval <= (1 << 30), who,
          "growth_interval must be in [1, 2^30], got ", options.growth_interval);
  kernels::StepControlOptions ours;
  require(options.initial_loss_scale >= double{ours.min_loss_scale} &&
              options.initial_loss_scale <= double{ours.max_loss_scale},
          who, "initial_loss_scale must be in [1, 2^24], got ", options.initial_loss_scale);
  ours.max_norm = static_cast<float>(options.clip_norm);
  ours.dynamic_loss_scale = options.loss_scaling;
  ours.growth_interval = static_cast<std::int32_t>(options.growth_interval);
  return ours;
}

void write_control(const at::Tensor& into, const kernels::StepControl& control) {
  const at::Tensor host = at::empty({kControlBytes}, at::kByte);
  std::memcpy(host.mutable_data_ptr(), &control, sizeof control);
  into.copy_(host);
}

kernels::StepControl read_control(const at::Tensor& host_bytes) {
  kernels::StepControl control;
  std::memcpy(&control, host_bytes.const_data_ptr(), sizeof control);
  return control;
}

LayerSignals signals_of(const kernels::LayerMoments& moments) {
  return {.count = moments.count,
          .sum = moments.sum,
          .sum_of_squares = moments.sum_of_squares,
          .absolute_maximum = moments.absolute_maximum,
          .nonfinite = moments.nonfinite,
          .fp16_zeros = moments.fp16_zeros,
          .fp16_subnormals = moments.fp16_subnormals,
          .fp16_scale = moments.fp16_scale};
}

}  // namespace

GradientControl::GradientControl(const GradientControlOptions& options,
                                 std::vector<ParameterRef> parameters, std::int64_t layer_count)
    : options_(kernel_options(options)),
      first_loss_scale_(options.loss_scaling ? static_cast<float>(options.initial_loss_scale) : 1),
      bundle_("GradientControl", std::move(parameters)),
      layer_count_(layer_count) {
  require(layer_count_ >= bundle_.layer_count(), "GradientControl", "a parameter is of layer ",
          bundle_.layer_count() - 1, ", but there are ", layer_count_, " layers");
  const std::int64_t scales_at = kControlBytes;
  const std::int64_t moments_at = scales_at + layer_count_ * kScaleBytes;
  board_ = at::zeros({moments_at + layer_count_ * kMomentsBytes},
                     at::TensorOptions().dtype(at::kByte).device(bundle_.device()));
  const auto piece = [&](std::int64_t at, std::int64_t bytes) {
    return board_.narrow(0, at, bytes);
  };
  using Control = kernels::StepControl;
  step_control_ = piece(0, kControlBytes);
  loss_scale_ = piece(offsetof(Control, loss_scale), sizeof(float)).view(at::kFloat).squeeze(0);
  static_assert(offsetof(Control, first_skipped_layer) ==
                offsetof(Control, first_skipped_step) + 8);
  diagnosis_ = piece(offsetof(Control, first_skipped_step), 16).view(at::kLong);
  layer_scales_ = piece(scales_at, layer_count_ * kScaleBytes).view(at::kFloat).view({-1, 4});
  layer_scales_.copy_(make_layer_scales(at::kCPU, layer_count_));
  moments_ = piece(moments_at, layer_count_ * kMomentsBytes);
  scratch_ = moments_scratch(bundle_);
  kernels::StepControl control;
  control.loss_scale = first_loss_scale_;
  write_control(step_control_, control);
}

void GradientControl::measure() {
  start_gathering();
  gather();
  decide();
}

void GradientControl::start_gathering() { clear_moments(step_control_, layer_scales_, moments_); }

void GradientControl::gather() {
  bundle_.bind_gradients();
  add_gradient_moments(bundle_, step_control_, layer_scales_, scratch_, moments_);
}

void GradientControl::decide() { decide_step(step_control_, moments_, options_); }

UpdateInputs GradientControl::update_inputs(const at::Tensor& learning_rates,
                                            UpdateGate gate) const {
  return {.learning_rates = learning_rates,
          .step_control = step_control_,
          .layer_scales = layer_scales_,
          .moments = moments_,
          .gate = gate};
}

void GradientControl::finish_step() { update_layer_scales(layer_scales_, moments_); }

void GradientControl::set_applied_steps(std::int64_t steps) {
  kernels::StepControl control = read_control(step_control_.cpu());
  control.applied_steps = steps;
  write_control(step_control_, control);
}

std::int64_t GradientControl::applied_steps() const {
  return read_control(step_control_.cpu()).applied_steps;
}

void GradientControl::clear_diagnosis() { diagnosis_.fill_(-1); }

void GradientControl::abandon_step() {
  constexpr std::int64_t output_maximum = 1;  // the column; see ops/update/layer_scales.h
  layer_scales_.select(1, output_maximum).zero_();
}

GradientReport GradientControl::read() const {
  const at::Tensor host = board_.cpu();
  const kernels::StepControl control = read_control(host);
  std::vector<kernels::LayerMoments> moments(static_cast<std::size_t>(layer_count_));
  std::memcpy(moments.data(),
              host.const_data_ptr<std::uint8_t>() + kControlBytes + layer_count_ * kScaleBytes,
              moments.size() * sizeof(kernels::LayerMoments));
  GradientReport report = {.layers = {},
                           .gradient_norm = control.gradient_norm,
                           .loss_scale = double{control.loss_scale},
                           .applied_steps = control.applied_steps,
                           .skipped_steps = control.skipped_steps,
                           .consecutive_skips = control.consecutive_skips,
                           .first_skipped_step = control.first_skipped_step,
                           .first_skipped_layer = control.first_skipped_layer};
  report.layers.reserve(moments.size());
  for (const kernels::LayerMoments& layer : moments) report.layers.push_back(signals_of(layer));
  return report;
}

std::int64_t GradientControl::consecutive_skips() const {
  return read_control(step_control_.cpu()).consecutive_skips;
}

std::vector<StateView> GradientControl::state() const {
  const kernels::StepControl control = read_control(step_control_.cpu());
  return {number_state<float>(kScaleState, {control.loss_scale}),
          number_state<std::int64_t>(kScaledState, {options_.dynamic_loss_scale ? 1 : 0}),
          number_state<std::int64_t>(kCounterState,
                                     {std::int64_t{control.clean_steps}, control.applied_steps,
                                      control.skipped_steps, control.consecutive_skips}),
          tensor_state(kLayerScaleState, layer_scales_)};
}

void GradientControl::restore(const StateMap& saved) {
  const auto scale = numbers_from<float>(saved, kScaleState, 1);
  const auto counters = numbers_from<std::int64_t>(saved, kCounterState, 4);
  const bool scaled = saved.contains(kScaledState)
                          ? numbers_from<std::int64_t>(saved, kScaledState, 1)[0] != 0
                          : scale[0] != 1;
  check_restorable(layer_scales_, saved, kLayerScaleState);
  kernels::StepControl control;
  // Whether a loss is scaled depends on the device, too.
  control.loss_scale = scaled && options_.dynamic_loss_scale ? scale[0] : first_loss_scale_;
  assign_numbers(counters, control.clean_steps, control.applied_steps, control.skipped_steps,
                 control.consecutive_skips);
  write_control(step_control_, control);
  restore_tensor(layer_scales_, saved, kLayerScaleState);
}

}  // namespace triaccel
