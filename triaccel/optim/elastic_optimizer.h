#pragma once

#include <memory>
#include <vector>

#include "triaccel/core/step_plan.h"
#include "triaccel/optim/optimizer.h"

namespace triaccel {

/// The optimizer of the layers with backpropagation, which may change between steps. Only these
/// have state: an added layer starts with none, the others keep theirs.
class ElasticOptimizer final : public Optimizer {
 public:
  /// Has no layers until follow() is called.
  ElasticOptimizer(const OptimizerOptions& options, std::vector<ParameterRef> parameters);

  /// Returns true if the layers changed: the states have then been reallocated.
  bool follow(const std::vector<LayerPlan>& layers);

  void update(const UpdateInputs& inputs) override;
  std::int64_t state_bytes() const override { return inner_ ? inner_->state_bytes() : 0; }
  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  OptimizerOptions options_;
  std::vector<ParameterRef> parameters_;
  std::vector<bool> layers_;          // with backpropagation
  std::unique_ptr<Optimizer> inner_;  // null: none
};

}  // namespace triaccel
