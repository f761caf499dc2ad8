#pragma once

#include <torch/nn.h>

namespace triaccel {

/// Evaluation mode for this scope, then whatever it was.
class [[nodiscard]] EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module)
      : module_(module), was_training_(module.is_training()) {
    module_.eval();
  }
  ~EvaluationMode() { module_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  torch::nn::Module& module_;
  bool was_training_;
};

}  // namespace triaccel
