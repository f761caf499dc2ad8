#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

#include "triaccel/layers/scope/operator_scope.h"
#include "triaccel/ops/tensors/tensor_bundle.h"

namespace triaccel {

/// The network as a curvature probe sees it.
struct ProbeNetwork {
  std::function<at::Tensor(const at::Tensor&)> forward = {};  // as in training, inputs -> logits
  std::vector<ParameterRef> parameters = {};
  std::vector<at::Tensor> weights = {};  // index = LayerId
  std::vector<at::Tensor> buffers = {};
};

struct ProbeBatch {
  at::Tensor inputs = {};   // samples first
  at::Tensor targets = {};  // class of each sample, or of each of its tokens
  double label_smoothing = 0;
};

/// Makes the loss a smooth function of the weights in which samples do not meet: batch norm uses
/// the batch's statistics as constants and leaves its running ones alone, nothing is dropped.
class FrozenHooks : public OperatorHooks {
 public:
  /// `twice`: whether the loss will be differentiated twice, which fused attention cannot be.
  explicit FrozenHooks(bool twice) : twice_(twice) {}

  at::Tensor batch_norm(const BatchNormCall& call) override;
  at::Tensor dropout(const at::Tensor& input, double probability, bool training) override;
  at::Tensor attention(const AttentionCall& call) override;
  at::Tensor& bernoulli(at::Tensor& mask, double probability,
                        const std::optional<at::Generator>& generator) override;
  bool owns(const at::Tensor&) const override { return false; }

 private:
  bool twice_;
};

/// The training loss of the batch in FP32, with its graph, computed through `hooks`.
at::Tensor probe_loss(const ProbeNetwork& network, const ProbeBatch& batch, FrozenHooks& hooks);

/// Puts buffers and random generators back when the scope ends: a module in training counts
/// batches and may draw numbers of its own.
class [[nodiscard]] UntouchedState {
 public:
  UntouchedState(const std::vector<at::Tensor>& buffers, c10::Device device,
                 bool generators = true);
  ~UntouchedState();
  UntouchedState(const UntouchedState&) = delete;
  UntouchedState& operator=(const UntouchedState&) = delete;

  /// Whether a random number was drawn since.
  bool drew() const;

 private:
  std::vector<at::Tensor> buffers_, copies_;
  std::vector<std::pair<at::Generator, at::Tensor>> generators_;  // with its state
};

}  // namespace triaccel
