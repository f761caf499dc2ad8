#include "triaccel/optim/optimizer.h"

#include <ATen/ATen.h>

#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/kernels/update/adamw.h"
#include "triaccel/kernels/update/sgd.h"
#include "triaccel/optim/compact_optimizer.h"
#include "triaccel/optim/moment_optimizer.h"

namespace triaccel {
namespace {

/// SGD with momentum, as torch.optim.SGD with dampening 0; state "momentum/<parameter>".
class Sgd final : public MomentOptimizer {
 public:
  Sgd(const OptimizerOptions& options, std::vector<ParameterRef> parameters)
      : MomentOptimizer(options, std::move(parameters), {"momentum"}) {
    set_options(options);
  }

  void set_options(const OptimizerOptions& options) override {
    require(options.momentum >= 0 && options.momentum < 1, "--optimizer",
            "momentum must be in [0, 1), got ", options.momentum);
    step_ = {.momentum = static_cast<float>(options.momentum),
             .weight_decay = checked_weight_decay(options),
             .nesterov = options.nesterov};
  }

  void update(const UpdateInputs& inputs) override {
    bundle_.bind_gradients();
    if (format_ != StateFormat::Fp8)
      update_tensors<kernels::cpu::sgd_update, kernels::cuda::sgd_update>("sgd_update", bundle_,
                                                                          inputs, step_);
    else
      update_tensors<kernels::cpu::quantized_sgd_update, kernels::cuda::quantized_sgd_update>(
          "quantized_sgd_update", bundle_, inputs, step_, state_noise(bundle_, noise_seed_));
  }

 private:
  kernels::SgdStep step_;
};

/// Adam with decoupled weight decay, as torch.optim.AdamW. Its step count is the step control's
/// applied_steps, which GradientControl saves; states "first_moment/<parameter>" and
/// "second_moment/<parameter>".
class AdamW final : public MomentOptimizer {
 public:
  AdamW(const OptimizerOptions& options, std::vector<ParameterRef> parameters)
      : MomentOptimizer(options, std::move(parameters), {"first_moment", "second_moment"}) {
    set_options(options);
  }

  void set_options(const OptimizerOptions& options) override { step_ = adamw_step(options); }

  void update(const UpdateInputs& inputs) override {
    bundle_.bind_gradients();
    if (format_ != StateFormat::Fp8)
      update_tensors<kernels::cpu::adamw_update, kernels::cuda::adamw_update>(
          "adamw_update", bundle_, inputs, step_);
    else
      update_tensors<kernels::cpu::quantized_adamw_update, kernels::cuda::quantized_adamw_update>(
          "quantized_adamw_update", bundle_, inputs, step_, state_noise(bundle_, noise_seed_));
  }

 private:
  kernels::AdamWStep step_;
};

}  // namespace

float checked_weight_decay(const OptimizerOptions& options) {
  require(options.weight_decay >= 0, "--optimizer", "weight_decay must not be negative, got ",
          options.weight_decay);
  return static_cast<float>(options.weight_decay);
}

kernels::AdamWStep adamw_step(const OptimizerOptions& options) {
  for (const double beta : {options.beta1, options.beta2})
    require(beta >= 0 && beta < 1, "--optimizer", "betas must be in [0, 1), got ", beta);
  require(options.epsilon > 0, "--optimizer", "epsilon must be positive, got ", options.epsilon);
  return {.beta1 = options.beta1,
          .beta2 = options.beta2,
          .epsilon = static_cast<float>(options.epsilon),
          .weight_decay = checked_weight_decay(options)};
}

void require_exact_state(const OptimizerOptions& options) {
  require(options.state == StateFormat::Fp32, "--optimizer-state",
          "only sgd and adamw have such a state; omit it for ", optimizer_name(options.kind),
          ", whose state is small");
}

std::unique_ptr<MomentOptimizer> make_moment_optimizer(const OptimizerOptions& options,
                                                       std::vector<ParameterRef> parameters) {
  switch (options.kind) {
    case OptimizerKind::Sgd:
      return std::make_unique<Sgd>(options, std::move(parameters));
    case OptimizerKind::AdamW:
      return std::make_unique<AdamW>(options, std::move(parameters));
    case OptimizerKind::AdaLomo:
    case OptimizerKind::ApolloMini:
      break;
  }
  throw UsageError(text("[--optimizer] ", optimizer_name(options.kind),
                        " has no moments of its parameters' shapes; use sgd or adamw here"));
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<ParameterRef> parameters) {
  switch (options.kind) {
    case OptimizerKind::Sgd:
    case OptimizerKind::AdamW:
      return make_moment_optimizer(options, std::move(parameters));
    case OptimizerKind::AdaLomo:
      return make_adalomo(options, std::move(parameters));
    case OptimizerKind::ApolloMini:
      return make_apollo_mini(options, std::move(parameters));
  }
  ensure(false, "every OptimizerKind has an optimizer");
  return nullptr;
}

ElasticOptimizer::ElasticOptimizer(const OptimizerOptions& options,
                                   std::vector<ParameterRef> parameters)
    : options_(options), parameters_(std::move(parameters)) {}

bool ElasticOptimizer::follow(const std::vector<LayerPlan>& layers) {
  std::vector<bool> wanted;
  for (const LayerPlan& layer : layers)
    wanted.push_back(layer.gradient == GradientSource::Backprop);
  if (wanted == layers_) return false;
  std::vector<ParameterRef> chosen;
  for (const ParameterRef& parameter : parameters_)
    if (wanted[static_cast<std::size_t>(parameter.layer)]) chosen.push_back(parameter);
  std::unique_ptr<Optimizer> next;
  if (!chosen.empty()) next = make_optimizer(options_, std::move(chosen));
  if (next && inner_) {
    StateMap states;
    for (StateView& view : next->state()) states.emplace(view.name, view);
    for (StateView& view : inner_->state())
      if (const auto found = states.find(view.name); found != states.end())
        found->second = std::move(view);
    next->restore(states);
  }
  inner_ = std::move(next);
  layers_ = std::move(wanted);
  return true;
}

void ElasticOptimizer::update(const UpdateInputs& inputs) {
  if (inner_) inner_->update(inputs);
}

std::vector<StateView> ElasticOptimizer::state() const {
  return inner_ ? inner_->state() : std::vector<StateView>();
}

void ElasticOptimizer::restore(const StateMap& saved) {
  if (inner_) inner_->restore(saved);
}

}  // namespace triaccel
