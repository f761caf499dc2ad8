#pragma once

#include <vector>

#include "triaccel/kernels/update/sgd.h"
#include "triaccel/optim/named_states.h"
#include "triaccel/optim/optimizer.h"

namespace triaccel {

/// SGD with momentum, as torch.optim.SGD with dampening 0; state "momentum/<parameter>".
class Sgd final : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, std::vector<ParameterRef> parameters);

  void update(const UpdateInputs& inputs) override;
  std::int64_t state_bytes() const override { return momentum_.bytes(); }
  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  kernels::SgdStep step_;
  StateFormat format_;
  std::uint64_t noise_seed_;
  TensorBundle bundle_;
  NamedStates momentum_;
};

}  // namespace triaccel
