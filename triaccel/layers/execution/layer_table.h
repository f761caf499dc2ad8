#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "triaccel/core/step_plan.h"
#include "triaccel/layers/convolution/kernel_choice.h"
#include "triaccel/layers/execution/gradient_delivery.h"
#include "triaccel/layers/execution/prepared_weights.h"
#include "triaccel/layers/execution/weight_uses.h"

namespace triaccel {

struct LayerExecutionOptions {
  bool device_has_bf16 = true;
  bool fuse = false;  // fuse norms with what follows them; our kernels around layers
  /// As NormFusionOptions. Saved tensors may come back changed: squeeze-and-excitation then stays
  /// operator by operator, so that each tensor has the reader that a codec knows.
  bool keep_relu_masks = false;
  bool branches = true;          // shortcuts may run on a stream of their own, see Branches
  bool prepare_weights = false;  // round all weights at the start of a step
  /// Outputs of fused norms that layers read are recomputed for backward instead of kept. Not where
  /// what a norm saves comes back changed.
  bool recompute_norms = false;
};

/// How a layer computes.
struct LayerArithmetic {
  Precision precision = Precision::Fp32;
  ConvolutionKernel kernel = {};
  at::ScalarType carrier = at::kFloat;  // of what the layer hands on
  PreparedWeights* prepared = nullptr;  // null: weights are rounded where they are used
  bool recompute_norms = false;         // as LayerExecutionOptions
};

/// A layer in the passes to come.
struct Layer {
  std::int64_t number = 0;
  at::Tensor weight = {};  // the FP32 master
  LayerArithmetic arithmetic = {};
  GradientDelivery gradients = {};

  LayerWeight operand() const { return {weight, number, arithmetic.prepared}; }
};

/// The layers of a network as the plan wants them, found by their weights.
class LayerTable {
 public:
  /// `weights` has one entry per layer; `scales` is GradientControl::layer_scales(). Without
  /// choices every layer computes by libtorch's own kernel in the plan's type.
  LayerTable(std::vector<at::Tensor> weights, KernelChoices kernels, at::Tensor scales,
             const LayerExecutionOptions& options, const std::shared_ptr<OtherGradients>& others);

  /// What the next passes do. `passes` of the step that follows.
  void follow(const std::vector<LayerPlan>& plans, std::int64_t passes);
  bool accumulates() const { return accumulates_; }  // gradients over several passes
  at::ScalarType carrier() const { return carrier_; }
  const KernelChoices& kernels() const { return kernels_; }

  /// Around each step: until it ends, copies made at its beginning stand for the weights.
  void begin_step(SideStream* side, GradientListener* listener);
  void end_step();
  /// Allocates the sums of gradients of the step that has begun, all of them together: one by one,
  /// between what passes allocate and free, they would leave gaps. Of layers that have computed
  /// before.
  void place_sums(const WeightUses& uses);
  /// The current stream comes after the copies, which may be made on a side stream.
  void join_copies();

  /// The layer of a weight; null when it is none of ours. A module may take any view of a
  /// parameter: only the weight as it stands is the layer's.
  const Layer* find(const at::Tensor& weight) const;
  /// The same for a weight's transpose.
  const Layer* find_transposed(const at::Tensor& matrix) const;

 private:
  std::vector<Layer> layers_;  // index = LayerId
  std::unordered_map<const void*, std::size_t> by_address_;
  KernelChoices kernels_;
  LayerExecutionOptions options_;
  std::unique_ptr<PreparedWeights> prepared_;  // null: none
  std::vector<LayerPlan> followed_;            // what the next two are for
  bool accumulates_ = false;
  at::ScalarType carrier_ = at::kFloat;
};

}  // namespace triaccel
