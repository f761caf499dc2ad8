#pragma once

#include <cstdint>
#include <vector>

#include "triaccel/device/side_stream.h"
#include "triaccel/layers/execution/layer_execution.h"
#include "triaccel/optim/gradient_control.h"
#include "triaccel/optim/optimizer.h"

namespace triaccel {

/// Applies gradients and frees them while backward still runs, a few megabytes at a time, on a side
/// stream. A layer whose gradient is not finite is skipped. Only for steps that nothing can stop
/// once they run (captured ones), of one pass, without clipping and without a loss scale.
class EarlyUpdates final : public GradientListener {
 public:
  EarlyUpdates(const LayerExecution& layers, GradientControl& gradients, Optimizer& optimizer,
               SideStream& side, at::Tensor learning_rates, std::vector<ParameterRef> parameters);

  /// `rehearse`: gradients are only freed, as they would be.
  void begin_step(bool rehearse);

  /// After forward: where a weight gets its gradient in several parts, all are applied at the end.
  void before_backward() { early_ = layers_.used_each_weight_once(); }

  void gradient_ready(const at::Tensor& weight, bool on_side_stream) override;

  /// Applies the rest; the whole step has then been decided.
  void end_backward();

 private:
  void apply();

  const LayerExecution& layers_;
  GradientControl& gradients_;
  Optimizer& optimizer_;
  SideStream& side_;
  at::Tensor learning_rates_;
  std::vector<ParameterRef> parameters_;
  bool rehearse_ = false;
  bool early_ = false;
  std::vector<at::Tensor>
      ready_;  // weights with pending gradients that were made on the side stream
  std::int64_t ready_bytes_ = 0;
};

}  // namespace triaccel
