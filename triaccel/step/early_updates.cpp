#include "triaccel/step/early_updates.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

namespace triaccel {
namespace {

// Enough for the update to run at the speed of memory, little compared with weights and momentum.
constexpr std::int64_t kBytesAtOnce = 3 << 20;

}  // namespace

EarlyUpdates::EarlyUpdates(const LayerExecution& layers, GradientControl& gradients,
                           Optimizer& optimizer, SideStream& side, at::Tensor learning_rates,
                           std::vector<ParameterRef> parameters)
    : layers_(layers),
      gradients_(gradients),
      optimizer_(optimizer),
      side_(side),
      learning_rates_(std::move(learning_rates)),
      parameters_(std::move(parameters)) {}

void EarlyUpdates::begin_step(bool rehearse) {
  rehearse_ = rehearse;
  early_ = false;
  ready_.clear();
  ready_bytes_ = 0;
  if (!rehearse_) gradients_.start_gathering();
}

void EarlyUpdates::gradient_ready(const at::Tensor& weight, bool on_side_stream) {
  if (on_side_stream) ready_.push_back(weight);
  ready_bytes_ += static_cast<std::int64_t>(weight.grad().nbytes());
  if (!early_ || ready_bytes_ < kBytesAtOnce) return;
  // Gradients that were made on the side stream may go back there at once; what comes from the main
  // stream, as those of norms do, is held until it has been read.
  std::vector<at::Tensor> held;
  for (const ParameterRef& parameter : parameters_) {
    const auto is_this = [&](const at::Tensor& ready) { return ready.is_same(parameter.tensor); };
    if (parameter.tensor.grad().defined() && std::ranges::none_of(ready_, is_this))
      held.push_back(parameter.tensor.grad());
  }
  side_.run([this] { apply(); }, std::move(held));
  ready_.clear();
  ready_bytes_ = 0;
}

void EarlyUpdates::end_backward() {
  side_.join();
  apply();
  gradients_.decide();
}

void EarlyUpdates::apply() {
  const at::NoGradGuard no_grad;
  if (!rehearse_) {
    gradients_.gather();
    optimizer_.update(gradients_.update_inputs(learning_rates_, UpdateGate::Layer));
  }
  for (const ParameterRef& parameter : parameters_) parameter.tensor.mutable_grad().reset();
}

}  // namespace triaccel
