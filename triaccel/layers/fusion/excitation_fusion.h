#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "triaccel/layers/fusion/deferred_operations.h"
#include "triaccel/layers/scope/operator_scope.h"

namespace triaccel {

struct ExcitationLayers;
struct Layer;
class WeightUses;

/// Fuses what stands between the means and the gates of squeeze-and-excitation: a convolution of
/// single pixels, SiLU, a second convolution, sigmoid; both with a bias. One kernel computes them,
/// two their gradients. Whatever the layers' precisions, it reads the FP32 weights and computes in
/// FP32. The weights' gradients are BF16 in a BF16 layer, else FP32: no FP16 number is made, so
/// none needs a scale.
///
/// Until the sigmoid comes, every output of the chain is deferred. Anything but this chain
/// materializes it, operator by operator.
class ExcitationFusion {
 public:
  /// `fuse` false leaves everything to the operators. `uses` hears of every layer that is computed.
  ExcitationFusion(bool fuse, DeferredOperations& deferred, WeightUses& uses)
      : fuse_(fuse), deferred_(deferred), uses_(uses) {}

  /// The output of a convolution that may belong to such a chain, as convolution_layer takes it;
  /// empty: it does not.
  std::optional<at::Tensor> convolution(const ConvolutionCall& call, const Layer& layer);
  /// activation(input), when the input is deferred here. In place it is the input itself.
  std::optional<at::Tensor> activated(const at::Tensor& input, Activation activation,
                                      bool in_place);
  /// sigmoid(input), when the input is the end of a deferred chain: all of it is computed.
  std::optional<at::Tensor> gated(const at::Tensor& input);

 private:
  struct LayerCall;  // of one of the two
  struct Squeezed;   // the first layer's call, and what has been computed from it one by one
  class Place;       // a deferred output's node in autograd's graph
  class Node;        // that of the gates
  class Operation;   // a deferred output
  struct Chain {     // as far as it has come
    std::shared_ptr<Squeezed> squeezed = {};
    bool activated = false;
    std::shared_ptr<LayerCall> excite = {};  // null: not yet there
  };

  static ExcitationLayers weights_of(const LayerCall& squeeze, const LayerCall& excite);
  /// The operation behind the input of an operator that may be fused with it; null: none.
  std::shared_ptr<Operation> fusable(const at::Tensor& tensor) const;
  at::Tensor defer(const Chain& chain, at::IntArrayRef sizes, const at::TensorOptions& options);
  at::Tensor computed(const LayerCall& call, const at::Tensor& input) const;
  /// The values at the end of a chain, by one operator after the other.
  at::Tensor values_of(const Chain& chain) const;

  bool fuse_;
  DeferredOperations& deferred_;
  WeightUses& uses_;
};

}  // namespace triaccel
