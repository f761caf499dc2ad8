#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "triaccel/device/side_stream.h"
#include "triaccel/layers/execution/branches.h"
#include "triaccel/layers/execution/layer_table.h"
#include "triaccel/layers/execution/weight_uses.h"
#include "triaccel/layers/fusion/deferred_operations.h"
#include "triaccel/layers/fusion/excitation_fusion.h"
#include "triaccel/layers/fusion/norm_fusion.h"
#include "triaccel/layers/scope/operator_scope.h"

namespace triaccel {

/// Runs every convolution, product and embedding of a network in the type its plan names, forward
/// and backward, with the FP32 weights untouched. Open an OperatorScope on it around forward;
/// backward needs no scope.
///
/// What flows between layers has one carrier type: BF16 as soon as any layer computes in 16 bits
/// (FP16 where the hardware has no BF16), else FP32. A layer converts at its own edges and saves
/// its input as it arrived, so a 16-bit plan halves what is saved. The gradient of a 16-bit
/// layer's weight is left in weight.grad() in that type, an FP16 layer's multiplied by its scale;
/// GradientControl and the optimizers read it as it is. When a step takes several passes they are
/// summed in FP32, unscaled.
///
/// It only routes operators: LayerTable says which layer an operator belongs to and how it
/// computes, the fusions defer what follows a norm or a mean, Branches chooses streams, WeightUses
/// and BatchCounters keep the books of a pass.
class LayerExecution final : public OperatorHooks {
 public:
  /// As LayerTable.
  LayerExecution(const std::vector<at::Tensor>& weights, KernelChoices kernels,
                 const at::Tensor& scales, const LayerExecutionOptions& options);

  /// What the next passes do. `passes` of the step that follows.
  void follow(const std::vector<LayerPlan>& layers, std::int64_t passes) {
    layers_.follow(layers, passes);
  }

  at::ScalarType carrier() const { return layers_.carrier(); }
  const KernelChoices& kernels() const { return layers_.kernels(); }

  at::Tensor convolution(const ConvolutionCall& call) override;
  at::Tensor linear(const LinearCall& call) override;
  at::Tensor embedding(const at::Tensor& weight, const at::Tensor& indices,
                       std::int64_t padding_idx, bool scale_grad_by_freq, bool sparse) override;
  at::Tensor batch_norm(const BatchNormCall& call) override;
  std::optional<at::Tensor> fused_norm(const BatchNormCall& call) override;
  std::optional<at::Tensor> activation(const at::Tensor& input, Activation kind,
                                       bool in_place) override;
  std::optional<at::Tensor> sum(const at::Tensor& left, const at::Tensor& right,
                                bool in_place) override;
  std::optional<at::Tensor> fused_product(const at::Tensor& left, const at::Tensor& right) override;
  std::optional<at::Tensor> sigmoid(const at::Tensor& input) override;
  std::optional<at::Tensor> fused_convolution(const ConvolutionCall& call) override;
  std::optional<at::Tensor> product(const at::Tensor& left, const at::Tensor& right) override;
  std::optional<at::Tensor> mean_of_channels(const at::Tensor& map) override;
  std::optional<at::Tensor> max_pool(const at::Tensor& map, const PoolGeometry& geometry) override;
  bool count_up(const at::Tensor& counter) override;
  bool has_pending() const override;
  void touch(const at::Tensor& tensor, bool writes) override;
  bool owns(const at::Tensor& matrix) const override {
    return layers_.find_transposed(matrix) != nullptr;
  }

  /// Around each step: until it ends, copies made at its beginning stand for the weights. With
  /// `side`, gradients of weights and Branches are computed there; both streams have to be joined
  /// after backward.
  void begin_step(SideStreams* side, GradientListener* listener);
  void end_step();
  /// As LayerTable, for a step of several passes.
  void place_sums() { layers_.place_sums(uses_); }

  /// As WeightUses::each_once.
  bool used_each_weight_once() const { return uses_.each_once(); }

  /// Around each forward pass, inside the OperatorScope: drops what a failed pass left; computes
  /// what is still deferred.
  void begin_pass();
  void end_pass();

  /// Computes what is deferred so far, inside the OperatorScope.
  void finish_deferred();

  /// Runs `forward` once more in backward, as forward passes compute, without effects: running
  /// statistics and counters stay, and weights count as used once.
  void run_again(const std::function<void()>& forward);
  /// The same as a function that may outlive this object, and then just calls `forward`.
  std::function<void(const std::function<void()>& forward)> again();

 private:
  void drop_pending();
  at::Tensor batch_norm_again(const BatchNormCall& call);  // running statistics stay
  /// The branch that a convolution may run on; null: the main stream.
  std::shared_ptr<Branch> branch_for(const ConvolutionCall& call, std::int64_t layer) const;

  LayerExecutionOptions options_;
  std::shared_ptr<OtherGradients> others_;
  LayerTable layers_;
  WeightUses uses_;
  DeferredOperations deferred_;
  NormFusion norms_;
  ExcitationFusion excitations_;
  Branches branches_;
  BatchCounters counters_;
  SideStreams* side_ = nullptr;  // of the step under way
  bool again_ = false;           // within run_again()
  std::shared_ptr<LayerExecution*> self_ = std::make_shared<LayerExecution*>(this);
};

/// A pass that reads the weights and changes none, as an evaluation's.
class [[nodiscard]] ReadingWeights {
 public:
  explicit ReadingWeights(LayerExecution* layers) : layers_(layers) {
    if (layers_ != nullptr) layers_->begin_step(nullptr, nullptr);
  }
  ~ReadingWeights() {
    if (layers_ != nullptr) layers_->end_step();
  }
  ReadingWeights(const ReadingWeights&) = delete;
  ReadingWeights& operator=(const ReadingWeights&) = delete;

 private:
  LayerExecution* layers_;
};

}  // namespace triaccel
