#pragma once

#include <memory>
#include <vector>

#include "triaccel/core/step_plan.h"
#include "triaccel/optim/optimizer.h"

namespace triaccel {

/// The optimizer of the layers that backpropagate, which may change between steps: only they have
/// state. A layer that comes in starts with none, one that stays keeps its own.
class ElasticOptimizer final : public Optimizer {
 public:
  /// Of no layer until follow() is called.
  ElasticOptimizer(const OptimizerOptions& options, std::vector<ParameterRef> parameters);

  /// Whether the layers have changed: then the states lie elsewhere in memory.
  bool follow(const std::vector<LayerPlan>& layers);

  void update(const UpdateInputs& inputs) override;
  std::int64_t state_bytes() const override { return inner_ ? inner_->state_bytes() : 0; }
  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  OptimizerOptions options_;
  std::vector<ParameterRef> parameters_;
  std::vector<bool> layers_;          // that backpropagate
  std::unique_ptr<Optimizer> inner_;  // null: there is none
};

}  // namespace triaccel
