#pragma once

#include <vector>

#include "triaccel/kernels/update/adamw.h"
#include "triaccel/optim/named_states.h"
#include "triaccel/optim/optimizer.h"

namespace triaccel {

/// Adam with decoupled weight decay, as torch.optim.AdamW. Its step count is the step control's
/// applied_steps, which GradientControl saves; states "first_moment/<parameter>" and
/// "second_moment/<parameter>".
class AdamW final : public Optimizer {
 public:
  AdamW(const OptimizerOptions& options, std::vector<ParameterRef> parameters);

  void update(const UpdateInputs& inputs) override;
  std::int64_t state_bytes() const override { return first_.bytes() + second_.bytes(); }
  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  kernels::AdamWStep step_;
  StateFormat format_;
  std::uint64_t noise_seed_;
  TensorBundle bundle_;
  NamedStates first_;
  NamedStates second_;
};

}  // namespace triaccel
