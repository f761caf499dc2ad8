#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/optim/named_states.h"
#include "triaccel/optim/optimizer.h"

namespace triaccel {

/// An optimizer whose states are the first moment of every parameter, or the first and second.
class MomentOptimizer : public Optimizer {
 public:
  std::int64_t state_bytes() const override {
    std::int64_t bytes = 0;
    for (const NamedStates& moment : moments_) bytes += moment.bytes();
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

 protected:
  MomentOptimizer(const OptimizerOptions& options, std::vector<ParameterRef> parameters,
                  std::initializer_list<const char*> kinds)
      : format_(options.state),
        noise_seed_(state_noise_seed(options)),
        bundle_("--optimizer", std::move(parameters)) {
    require(options.weight_decay >= 0, "--optimizer", "weight_decay must not be negative, got ",
            options.weight_decay);
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

}  // namespace triaccel
