#include "triaccel/step/gradient_strategy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/ops/loss_data/cross_entropy.h"

namespace triaccel {
namespace {

// Enough for the update to run at the speed of memory, little compared with weights and momentum.
constexpr std::int64_t kBytesAtOnce = 3 << 20;

/// Autograd keeps nothing for these weights until the scope ends.
class [[nodiscard]] FrozenWeights {
 public:
  explicit FrozenWeights(const std::vector<at::Tensor>& weights) {
    std::ranges::copy_if(weights, std::back_inserter(frozen_), &at::Tensor::requires_grad);
    for (const at::Tensor& weight : frozen_) weight.set_requires_grad(false);
  }
  ~FrozenWeights() {
    for (const at::Tensor& weight : frozen_) weight.set_requires_grad(true);
  }
  FrozenWeights(const FrozenWeights&) = delete;
  FrozenWeights& operator=(const FrozenWeights&) = delete;

 private:
  std::vector<at::Tensor> frozen_;
};

void require_backprop(const std::vector<LayerPlan>& layers) {
  for (const LayerPlan& layer : layers)
    require(layer.gradient == GradientSource::Backprop, "StepRunner::run",
            "the plan trains layers by zeroth-order estimates; set "
            "StepRunnerOptions::zeroth_order");
}

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

bool BackpropGradients::follow(const std::vector<LayerPlan>& layers) {
  require_backprop(layers);
  return false;
}

bool LeftGradients::follow(const std::vector<LayerPlan>& layers) {
  require_backprop(layers);
  return false;
}

GradientListener* BackpropGradients::begin_step(std::int64_t passes, Enqueued enqueued) {
  updates_early_ = early_ && passes == 1 && enqueued != Enqueued::Eagerly;
  if (!updates_early_) return nullptr;
  early_->begin_step(has_no_effect(enqueued));
  return early_.get();
}

void BackpropGradients::before_backward() {
  if (updates_early_) early_->before_backward();
}

void BackpropGradients::update(const at::Tensor& learning_rates) {
  if (updates_early_) return early_->end_backward();
  gradients_.measure();
  optimizer_.update(gradients_.update_inputs(learning_rates));
}

ZerothOrderGradients::ZerothOrderGradients(const ZerothOrderOptions& options, bool frozen,
                                           const std::vector<ParameterRef>& parameters,
                                           GradientControl& gradients, ElasticOptimizer& optimizer,
                                           c10::Device device)
    : zeroth_(options, parameters),
      frozen_(frozen),
      gradients_(gradients),
      optimizer_(optimizer),
      unscored_(make_running_score(device)) {}

bool ZerothOrderGradients::follow(const std::vector<LayerPlan>& layers) {
  const MemoryPurposeScope purpose(MemoryPurpose::Optimizer);
  zeroth_.follow(layers);
  const bool moved = optimizer_.follow(layers, [this] { return gradients_.applied_steps(); });
  if (zeroth_.must_take_steps())
    std::ranges::move(zeroth_.take_steps(), std::back_inserter(steps_taken_));
  return moved;
}

GradientListener* ZerothOrderGradients::begin_step(std::int64_t passes, Enqueued) {
  if (estimates()) zeroth_.begin_step(passes);
  return nullptr;
}

void ZerothOrderGradients::compute(StepSnapshot& snapshot, bool captured,
                                   const RunPasses& run_passes) {
  const FrozenWeights frozen(zeroth_.weights());
  if (!estimates()) return run_passes({});
  evaluate(snapshot, captured, run_passes);
  if (!captured && !draws_) draws_ = snapshot.drew();
}

void ZerothOrderGradients::evaluate(StepSnapshot& snapshot, bool captured,
                                    const RunPasses& run_passes) {
  const bool backprop = !zeroth_.alone();
  const bool clean_pass = backprop && zeroth_.wants_clean_pass();
  const auto as_before = [&] {
    snapshot.put_back_buffers();
    if (!captured) snapshot.put_back_generators();
  };
  const std::int64_t evaluations = zeroth_.evaluations();
  for (std::int64_t place = 0; place < evaluations; ++place) {
    if (place > 0) as_before();
    const std::int64_t evaluation = zeroth_.evaluation_at(place);
    zeroth_.go_to(evaluation);
    const bool last = place + 1 == evaluations && !clean_pass;
    run_passes({.backward = last && backprop,
                .score = last ? at::Tensor() : unscored_,
                .losses =
                    [&](std::int64_t pass, std::int64_t rows, std::int64_t classes) {
                      return zeroth_.losses(evaluation, pass, rows, classes);
                    },
                .scale_losses =
                    [&](const at::Tensor& factor) { zeroth_.scale_losses(evaluation, factor); }});
  }
  if (!clean_pass) return;
  as_before();
  zeroth_.go_back();
  run_passes({});
}

void ZerothOrderGradients::update(const at::Tensor& learning_rates) {
  if (!estimates()) {
    gradients_.measure();
    return optimizer_.update(gradients_.update_inputs(learning_rates));
  }
  gradients_.start_gathering();
  gradients_.gather();
  zeroth_.estimate(gradients_.update_inputs(learning_rates, UpdateGate::Layer).moments);
  gradients_.decide();
  optimizer_.update(gradients_.update_inputs(learning_rates));
  zeroth_.update(learning_rates, gradients_.step_control());
}

void ZerothOrderGradients::abandon_step(bool captured) {
  if (estimates()) zeroth_.abandon_step(/*moved=*/!captured);
}

void ZerothOrderGradients::end_step(double zeroth_order_rate) {
  if (estimates()) zeroth_.note_step(zeroth_order_rate);
}

void ZerothOrderGradients::report(StepReport& report) {
  std::ranges::move(zeroth_.take_steps(), std::back_inserter(steps_taken_));
  report.zeroth_order = std::exchange(steps_taken_, {});
}

}  // namespace triaccel
