#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "triaccel/layers/scope/operator_scope.h"

namespace triaccel {

struct LayerArithmetic;

/// Joins what stands between the means and the gates of squeeze-and-excitation: a convolution of
/// single pixels, SiLU, a second convolution, sigmoid; both with a bias. One kernel computes them,
/// two their gradients. Whatever the layers' precisions, it reads the FP32 weights and computes in
/// FP32. The weights' gradients are BF16 in a BF16 layer, else FP32: no FP16 number is made, so
/// none needs a scale.
///
/// Until the sigmoid comes, every output waits as a norm's does: its shape and its place in
/// autograd's graph are there at once, its values when somebody needs them. Anything but this chain
/// settles it, operator by operator.
class ExcitationFusion {
 public:
  /// Told of every layer that is computed, once for each time.
  using NoteUse = std::function<void(std::int64_t layer, const std::optional<at::Tensor>& bias)>;

  /// `join` false leaves everything to the operators.
  ExcitationFusion(bool join, NoteUse note_use) : join_(join), note_use_(std::move(note_use)) {}

  /// The output of a convolution that may belong to such a chain, as convolution_layer takes it;
  /// empty: it does not.
  std::optional<at::Tensor> convolution(const ConvolutionCall& call, const at::Tensor& weight,
                                        const LayerArithmetic& how);
  /// activation(input), when the input waits. In place it is the input itself.
  std::optional<at::Tensor> activated(const at::Tensor& input, Activation activation,
                                      bool in_place);
  /// sigmoid(input), when the input waits at the end of the chain: all of it is computed.
  std::optional<at::Tensor> gated(const at::Tensor& input);

  /// Somebody is about to read `tensor`, or to write it: what waits for it or with it is computed.
  void touch(const at::Tensor& tensor, bool writes);

  bool waits() const { return !waiting_.empty(); }
  void materialize_all();

  /// Forgets what waits, after a pass that failed.
  void forget_all() { waiting_.clear(); }

 private:
  struct Layer;     // one of the two
  struct Squeezed;  // the first layer's call, and what has been computed from it one by one
  class Place;      // a waiting output's place in autograd's graph
  class Node;       // that of the gates
  struct Chain {    // as far as it has come
    std::shared_ptr<Squeezed> squeezed = {};
    bool activated = false;
    std::shared_ptr<Layer> excite = {};  // null: not yet there
  };
  struct Waiting {  // an output without values
    c10::weak_intrusive_ptr<c10::TensorImpl> output;
    Chain chain;
    std::shared_ptr<Place> place;  // null: no gradient is wanted
  };
  using Position = std::vector<Waiting>::iterator;

  void forget_expired();
  Position find(const at::Tensor& tensor);
  /// The waiting input of an operator that may be joined to it.
  Position joinable(const at::Tensor& tensor);
  at::Tensor wait(const Chain& chain, at::IntArrayRef sizes, const at::TensorOptions& options);
  at::Tensor computed(const Layer& layer, const at::Tensor& input) const;
  /// The values at the end of a chain, by one operator after the other.
  at::Tensor values_of(const Chain& chain) const;
  void materialize(Position position);

  bool join_;
  NoteUse note_use_;
  std::vector<Waiting> waiting_;
};

}  // namespace triaccel
