#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "triaccel/core/step_plan.h"
#include "triaccel/layers/kernel_choice.h"
#include "triaccel/layers/operator_scope.h"

namespace triaccel {

/// How a layer computes in the passes to come.
struct LayerArithmetic {
  std::int64_t layer = 0;
  Precision precision = Precision::Fp32;
  ConvolutionKernel kernel = {};
  at::ScalarType carrier = at::kFloat;  // of what the layer hands on
  bool accumulate = false;              // its weight gradient is a sum over several passes
  at::Tensor scales = {};               // GradientControl::layer_scales
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
                 bool device_has_bf16);
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
  bool owns(const at::Tensor& matrix) const override;

 private:
  /// The layer a weight or a view of it belongs to; -1 when it is none of ours.
  std::int64_t layer_of(const at::Tensor& weight) const;

  /// A module may take any view of a parameter: only the weight as it stands is the layer's.
  bool is_whole(const at::Tensor& view, std::int64_t layer) const;

  /// A weight that something besides its layer reads gets a gradient from autograd too, in FP32:
  /// what the layer left must be widened before the two are added.
  void expect_other_gradients();

  std::vector<at::Tensor> weights_;
  std::unordered_map<const void*, std::int64_t> by_address_;
  KernelChoices kernels_;
  at::Tensor scales_;
  std::vector<std::pair<std::size_t, unsigned>> hooks_;  // index of a weight, its hook's number
  bool device_has_bf16_;
  std::vector<LayerPlan> followed_;  // what the next three were made for
  bool accumulates_ = false;
  at::ScalarType carrier_ = at::kFloat;
  std::vector<LayerArithmetic> arithmetic_;  // index = LayerId
};

}  // namespace triaccel
