#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "triaccel/core/step_plan.h"
#include "triaccel/device/side_stream.h"
#include "triaccel/layers/convolution/kernel_choice.h"
#include "triaccel/layers/execution/branches.h"
#include "triaccel/layers/execution/prepared_weights.h"
#include "triaccel/layers/fusion/excitation_fusion.h"
#include "triaccel/layers/fusion/norm_fusion.h"
#include "triaccel/layers/scope/operator_scope.h"

namespace triaccel {

/// Told when a layer has left the gradient of its weight and will not read that weight again;
/// `on_side_stream`: the gradient was made there.
class GradientListener {
 public:
  virtual ~GradientListener() = default;
  virtual void gradient_ready(const at::Tensor& weight, bool on_side_stream) = 0;
};

/// How a layer computes in the passes to come.
struct LayerArithmetic {
  std::int64_t layer = 0;
  Precision precision = Precision::Fp32;
  ConvolutionKernel kernel = {};
  at::ScalarType carrier = at::kFloat;  // of what the layer hands on
  bool accumulate = false;              // its weight gradient is a sum over several passes
  at::Tensor scales = {};               // GradientControl::layer_scales
  PreparedWeights* prepared = nullptr;  // null: weights are rounded where they are used
  SideStream* side = nullptr;           // for weights' gradients; null: one after the other
  GradientListener* listener = nullptr;
  bool recompute_norms = false;  // as LayerExecutionOptions
};

struct LayerExecutionOptions {
  bool device_has_bf16 = true;
  bool fuse = false;  // join norms with what follows them; our kernels around layers
  /// As NormFusionOptions. What is saved may come back changed: squeeze-and-excitation then stays
  /// operator by operator, so that each tensor has the reader that a codec knows.
  bool keep_relu_masks = false;
  bool prepare_weights = false;  // round all weights at the start of a step
  /// Outputs of joined norms that layers read are computed again for backward instead of kept. Not
  /// where what a norm saves comes back changed.
  bool recompute_norms = false;
};

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
class LayerExecution final : public OperatorHooks {
 public:
  /// `weights` has one entry a layer; `scales` is GradientControl::layer_scales(). Without choices
  /// every layer computes by libtorch's own kernel in the plan's type.
  LayerExecution(std::vector<at::Tensor> weights, KernelChoices kernels, at::Tensor scales,
                 const LayerExecutionOptions& options);
  ~LayerExecution() override;
  LayerExecution(const LayerExecution&) = delete;
  LayerExecution& operator=(const LayerExecution&) = delete;

  /// What the next passes do. `passes` of the step that follows.
  void follow(const std::vector<LayerPlan>& layers, std::int64_t passes);

  at::ScalarType carrier() const { return carrier_; }
  const KernelChoices& kernels() const { return kernels_; }

  at::Tensor convolution(const ConvolutionCall& call) override;
  at::Tensor linear(const LinearCall& call) override;
  at::Tensor embedding(const at::Tensor& weight, const at::Tensor& indices,
                       std::int64_t padding_idx, bool scale_grad_by_freq, bool sparse) override;
  at::Tensor batch_norm(const BatchNormCall& call) override;
  std::optional<at::Tensor> joined_norm(const BatchNormCall& call) override;
  std::optional<at::Tensor> activation(const at::Tensor& input, Activation kind,
                                       bool in_place) override;
  std::optional<at::Tensor> sum(const at::Tensor& left, const at::Tensor& right,
                                bool in_place) override;
  std::optional<at::Tensor> joined_product(const at::Tensor& left,
                                           const at::Tensor& right) override;
  std::optional<at::Tensor> sigmoid(const at::Tensor& input) override;
  std::optional<at::Tensor> joined_convolution(const ConvolutionCall& call) override;
  std::optional<at::Tensor> product(const at::Tensor& left, const at::Tensor& right) override;
  std::optional<at::Tensor> mean_of_channels(const at::Tensor& map) override;
  std::optional<at::Tensor> max_pool(const at::Tensor& map, const PoolGeometry& how) override;
  bool count_up(const at::Tensor& counter) override;
  bool waits() const override {
    return !deferred_.empty() || branches_.waits() || !counters_.empty();
  }
  void touch(const at::Tensor& tensor, bool writes) override;
  bool owns(const at::Tensor& matrix) const override;

  /// Around each step: until it ends, copies made at its beginning stand for the weights. With
  /// `side`, gradients of weights and Branches are computed there; both streams have to be joined
  /// after backward.
  void begin_step(SideStreams* side, GradientListener* listener);
  void end_step();

  /// Whether in the last pass every weight was used once, and by its own layer alone: it then gets
  /// its gradient in one piece.
  bool used_each_weight_once() const;

  /// Around each forward pass, inside the OperatorScope: forgets what a failed pass left; computes
  /// what still waits.
  void begin_pass();
  void end_pass();

 private:
  /// The layer a weight or a view of it belongs to; -1 when it is none of ours.
  std::int64_t layer_of(const at::Tensor& weight) const;

  /// A module may take any view of a parameter: only the weight as it stands is the layer's.
  bool is_whole(const at::Tensor& view, std::int64_t layer) const;

  /// A weight that something besides its layer reads gets a gradient from autograd too, in FP32:
  /// what the layer left must be widened before the two are added.
  void expect_other_gradients();
  bool counts(const at::Tensor& tensor) const;
  void add_up_counters();
  void forget_waiting();
  /// The branch that a convolution may run on; null: the main stream.
  std::shared_ptr<Branch> branch_for(const ConvolutionCall& call, std::int64_t layer) const;
  /// Whether no norm of this pass has moved these running statistics before.
  bool moves_for_the_first_time(const BatchNormCall& call);
  void note_use(std::int64_t layer, const std::optional<at::Tensor>& bias);

  std::vector<at::Tensor> weights_;
  std::unordered_map<const void*, std::int64_t> by_address_;
  KernelChoices kernels_;
  at::Tensor scales_;
  std::vector<std::pair<std::size_t, unsigned>> hooks_;  // index of a weight, its hook's number
  LayerExecutionOptions options_;
  DeferredOperations deferred_;
  NormFusion norms_;
  ExcitationFusion excitations_;
  Branches branches_;
  std::unordered_set<const void*> moved_;  // running means, in this pass
  std::unique_ptr<PreparedWeights> prepared_;
  bool in_step_ = false;
  SideStreams* side_ = nullptr;             // of the step under way
  std::unordered_set<const void*> biases_;  // seen in this pass
  bool shares_a_bias_ = false;              // two layers of this pass have the same
  std::vector<int> uses_;                   // of each weight in this pass, by its layer
  std::vector<bool> used_apart_;            // it once got a gradient by other ways, too
  std::vector<at::Tensor> counters_;        // to go up by one at the end of the pass
  std::vector<LayerPlan> followed_;         // what the next three were made for
  bool accumulates_ = false;
  at::ScalarType carrier_ = at::kFloat;
  std::vector<LayerArithmetic> arithmetic_;  // index = LayerId
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
