#pragma once

#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "triaccel/kernels/update/adamw.h"
#include "triaccel/optim/named_states.h"
#include "triaccel/optim/optimizer.h"

namespace triaccel {

/// An optimizer whose states are the first moment of every parameter, or the first and second.
class MomentOptimizer : public Optimizer {
 public:
  std::int64_t state_bytes() const override {
    std::int64_t bytes = 0;
    for (const NamedStates& moment : moments_) bytes += moment.device_bytes();
    return bytes;
  }
  std::int64_t host_state_bytes() const override {
    std::int64_t bytes = 0;
    for (const NamedStates& moment : moments_) bytes += moment.host_bytes();
    return bytes;
  }
  std::vector<StateView> state() const override {
    std::vector<StateView> states;
    for (const NamedStates& moment : moments_) moment.append_to(states, bundle_.parameters());
    return states;
  }
  void restore(const StateMap& saved) override {
    for (const NamedStates& moment : moments_) moment.check(saved, bundle_.parameters());
    for (NamedStates& moment : moments_) moment.restore(saved, bundle_.parameters());
  }

  /// Hyperparameters from the next update on; kind, state format and seed stay. A captured graph
  /// keeps those it was captured with.
  virtual void set_options(const OptimizerOptions& options) = 0;

  /// The tensors that update() changes in place, by moment and parameter; encoded in 8 bits.
  std::vector<std::vector<at::Tensor>> moments() const {
    std::vector<std::vector<at::Tensor>> tensors;
    for (const NamedStates& moment : moments_) tensors.push_back(moment.tensors());
    return tensors;
  }

 protected:
  MomentOptimizer(const OptimizerOptions& options, std::vector<ParameterRef> parameters,
                  std::initializer_list<const char*> kinds)
      : format_(options.state),
        noise_seed_(state_noise_seed(options)),
        bundle_("--optimizer", std::move(parameters)) {
    for (const char* kind : kinds)
      moments_.emplace_back(kind, bundle_,
                            moments_.empty() ? kernels::Moment::First : kernels::Moment::Second,
                            options);
  }

  StateFormat format_;
  std::uint64_t noise_seed_;
  TensorBundle bundle_;

 private:
  std::vector<NamedStates> moments_;
};

/// The options as a kernel takes them; UsageError if they are out of range.
float checked_weight_decay(const OptimizerOptions& options);
kernels::AdamWStep adamw_step(const OptimizerOptions& options);

/// UsageError for a state in 8 bits or in host memory, by an optimizer that has neither.
void require_exact_state(const OptimizerOptions& options);

/// The optimizers that are made of moments: SGD and AdamW. UsageError for others.
std::unique_ptr<MomentOptimizer> make_moment_optimizer(const OptimizerOptions& options,
                                                       std::vector<ParameterRef> parameters);

}  // namespace triaccel
