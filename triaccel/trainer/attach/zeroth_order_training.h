#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/device/memory_gauge.h"
#include "triaccel/step/step_batch.h"
#include "triaccel/step/step_runner.h"

namespace triaccel {

struct ZerothOrderTrainingOptions {
  ZerothOrderOptions estimates = {};
  OptimizerOptions optimizer = {};    // of the layers with backpropagation
  std::int64_t backprop_layers = 0;   // the last ones; all others learn from estimates
  std::int64_t micro_batch_size = 0;  // samples of a pass; 0: the whole batch
};

/// Zeroth-order training of a network with a loss of the caller's own: losses of forward passes
/// with moved weights stand for gradients, of all layers or of all but the last ones (ElasticZO).
class ZerothOrderTraining {
 public:
  /// The network's forward function is not used.
  ZerothOrderTraining(StepNetwork network, const ZerothOrderTrainingOptions& options,
                      c10::Device device);

  /// One step; returns the mean loss, on the device. When it throws, everything is as before.
  at::Tensor step(std::int64_t samples, const ClosureBatch::Closure& closure, double learning_rate,
                  double zeroth_order_rate);

  /// What happened since the last report. Waits for the device.
  StepReport report() { return runner_.collect(); }

 private:
  c10::Device device_;
  std::int64_t micro_batch_size_;
  MemoryGauge gauge_;
  StepRunner runner_;
  StepPlan plan_;
};

}  // namespace triaccel
