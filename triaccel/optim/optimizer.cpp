#include "triaccel/optim/optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/kernels/update/adamw.h"
#include "triaccel/kernels/update/sgd.h"
#include "triaccel/optim/compact_optimizer.h"
#include "triaccel/optim/moment_optimizer.h"

namespace triaccel {
namespace {

constexpr const char* kStateBegun = "elastic_optimizer/begun_after";

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

bool ElasticOptimizer::follow(const std::vector<LayerPlan>& layers,
                              const std::function<std::int64_t()>& applied_steps) {
  Begun wanted(layers.size(), kNoState);
  begun_.resize(layers.size(), kNoState);
  std::optional<std::int64_t> now;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].gradient != GradientSource::Backprop) continue;
    wanted[i] = begun_[i];
    if (wanted[i] != kNoState) continue;
    if (!now) now = applied_steps();
    wanted[i] = *now;
  }
  if (wanted == begun_) return false;
  std::vector<Part> parts = parts_of(wanted);
  StateMap states;
  const auto overlay = [&](const std::vector<Part>& of, bool adds) {
    for (const Part& part : of)
      for (StateView& view : part.optimizer->state())
        if (adds || states.contains(view.name)) states[view.name] = std::move(view);
  };
  overlay(parts, /*adds=*/true);
  overlay(parts_, /*adds=*/false);
  for (const Part& part : parts) part.optimizer->restore(states);
  parts_ = std::move(parts);
  begun_ = std::move(wanted);
  return true;
}

std::vector<ElasticOptimizer::Part> ElasticOptimizer::parts_of(const Begun& begun) const {
  std::map<std::int64_t, std::vector<ParameterRef>> chosen;
  for (const ParameterRef& parameter : parameters_)
    if (const std::int64_t at = begun[static_cast<std::size_t>(parameter.layer)]; at != kNoState)
      chosen[at].push_back(parameter);
  std::vector<Part> parts;
  for (auto& [at, parameters] : chosen)
    parts.push_back({at, make_optimizer(options_, std::move(parameters))});
  return parts;
}

void ElasticOptimizer::update(const UpdateInputs& inputs) {
  UpdateInputs own = inputs;
  for (const Part& part : parts_) {
    own.begun_after = part.begun_after;
    part.optimizer->update(own);
  }
}

std::int64_t ElasticOptimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const Part& part : parts_) bytes += part.optimizer->state_bytes();
  return bytes;
}

std::int64_t ElasticOptimizer::host_state_bytes() const {
  std::int64_t bytes = 0;
  for (const Part& part : parts_) bytes += part.optimizer->host_state_bytes();
  return bytes;
}

std::vector<StateView> ElasticOptimizer::state() const {
  std::vector<StateView> all;
  for (const Part& part : parts_)
    for (StateView& view : part.optimizer->state()) all.push_back(std::move(view));
  if (!all.empty()) all.push_back(number_state(kStateBegun, begun_));
  return all;
}

void ElasticOptimizer::restore(const StateMap& saved) {
  Begun begun = begun_;
  if (saved.contains(kStateBegun)) {  // not in checkpoints of earlier versions
    begun = numbers_from<std::int64_t>(saved, kStateBegun, std::ssize(begun_));
  } else {
    for (std::int64_t& at : begun) at = std::min<std::int64_t>(at, 0);
  }
  std::vector<Part> parts = begun == begun_ ? std::vector<Part>() : parts_of(begun);
  for (const Part& part : parts.empty() ? parts_ : parts) part.optimizer->restore(saved);
  if (!parts.empty()) parts_ = std::move(parts);
  begun_ = std::move(begun);
}

}  // namespace triaccel
