#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "triaccel/core/step_report.h"
#include "triaccel/layers/scope/operator_scope.h"
#include "triaccel/ops/tensors/tensor_bundle.h"

namespace triaccel {

/// The model as used by a curvature probe.
struct ProbeNetwork {
  std::function<at::Tensor(const at::Tensor&)> forward = {};  // as in training, inputs -> logits
  std::vector<ParameterRef> parameters = {};
  std::vector<at::Tensor> weights = {};  // index = LayerId
  std::vector<at::Tensor> buffers = {};
};

/// Samples of a data set, or a loss that only the caller can compute.
struct ProbeBatch {
  at::Tensor inputs = {};   // samples first
  at::Tensor targets = {};  // class of each sample, or of each of its tokens
  double label_smoothing = 0;
  std::function<at::Tensor()> own_loss = {};  // in place of these: the mean over the samples
  std::int64_t own_samples = 0;

  std::int64_t samples() const { return own_loss ? own_samples : inputs.size(0); }
};

/// Makes the loss a smooth function of the weights without interaction between samples: batch norm
/// treats batch statistics as constants and does not update running ones; dropout is disabled.
class FrozenHooks : public OperatorHooks {
 public:
  /// `twice`: whether the loss is differentiated twice, which fused attention does not support.
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

/// Restores buffers and random generators at the end of the scope: a module in training mode counts
/// batches and may draw random numbers.
class [[nodiscard]] UntouchedState {
 public:
  UntouchedState(const std::vector<at::Tensor>& buffers, c10::Device device,
                 bool generators = true);
  ~UntouchedState();
  UntouchedState(const UntouchedState&) = delete;
  UntouchedState& operator=(const UntouchedState&) = delete;

  /// Whether random numbers were drawn since.
  bool drew() const;

 private:
  std::vector<at::Tensor> buffers_, copies_;
  std::vector<std::pair<at::Generator, at::Tensor>> generators_;  // with its state
};

struct CurvatureOptions {
  CurvatureMode mode = CurvatureMode::FisherGram;
  std::int64_t top = 5;      // eigenvalues per layer
  std::int64_t batch = 32;   // samples per probe
  bool whole_layer = false;  // block: only the weight, or all parameters of the layer, of which
                             // the Gram matrix includes biases added by the layer's operator, not
                             // norms, nor the bias nn::Linear adds for inputs beyond [samples, in].
  // fisher_gram: workspace for slices of per-sample gradients. Large maps get more: when backward
  // reaches them, the activations of the layers above are free already.
  std::int64_t workspace_bytes = 8 << 20;
  std::int64_t workspace_per_map = 2;  // at least this multiple of a layer's input and output
  std::int64_t most_iterations = 20;   // hessian: products with each of the `top` vectors
  double tolerance = 1e-2;             // hessian: relative to the largest eigenvalue
  std::uint64_t seed = 0;              // hessian: of the initial vectors
  bool operator==(const CurvatureOptions&) const = default;
};

}  // namespace triaccel
