#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn.h>

#include <cstdint>
#include <functional>
#include <span>

#include "triaccel/data/dataset.h"
#include "triaccel/models/network.h"
#include "triaccel/step/forward_pass.h"
#include "triaccel/step/graph_cache.h"
#include "triaccel/step/step_batch.h"
#include "triaccel/telemetry/sink.h"

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

/// How an evaluation computes.
struct EvaluationRules {
  ForwardRules forward = {};
  std::uint64_t shape = 0;  // shape_hash of the plan that `forward` follows
  std::int64_t batch = 0;   // samples per pass; fewer if the device is short of memory
};

/// Measures loss and accuracy of a network over samples of a data set, in evaluation mode.
class Evaluator {
 public:
  /// With `graphs`, passes are captured and replayed like steps, in the same memory; not under a
  /// loss or metric of the caller's own.
  Evaluator(Network network, c10::Device device, GraphCache* graphs = nullptr,
            LossFunction loss = {}, MetricFunction metric = {});

  /// `alive` is called after each pass.
  EvaluationReport evaluate(const Dataset& data, std::span<const std::int64_t> ids,
                            const EvaluationRules& rules, const std::function<void()>& alive = {});

 private:
  void score_pass(const Dataset& data, const at::Tensor& ids, const EvaluationRules& rules);

  Network network_;
  c10::Device device_;
  GraphCache* graphs_;
  LossFunction loss_;      // empty: cross-entropy
  MetricFunction metric_;  // empty: share of right classes
  at::Tensor metric_sum_;  // over samples, F64
  at::Tensor score_;
  at::Tensor
      by_class_;    // int64 [2, classes]: samples and right ones; undefined without class names
  at::Tensor ids_;  // int64 [samples of the largest pass so far]: where captured passes read them
};

}  // namespace triaccel
