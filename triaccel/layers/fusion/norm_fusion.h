#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <optional>
#include <vector>

#include "triaccel/layers/execution/branches.h"
#include "triaccel/layers/scope/operator_scope.h"
#include "triaccel/ops/norm/batch_norm.h"

namespace triaccel {

struct NormFusionOptions {
  bool fuse = false;  // false leaves every norm to libtorch
  /// Keep the gates of every ReLU behind a norm, not only of those that backward cannot find from
  /// the norm's input: for inputs that come back changed, as a lossy codec leaves them.
  bool gate_all_norms = false;
};

/// Joins a batch norm with the product with a number a sample (stochastic depth), the addition and
/// the activation that follow it, so that the map is read and written once, forward and backward,
/// and no value between them is kept.
///
/// A norm's output has its shape and its place in autograd's graph at once, its values only when
/// somebody needs them: an activation takes the norm along, anything else settles it first. So it
/// works for modules that know nothing of it, as long as they touch tensors by operators.
class NormFusion {
 public:
  explicit NormFusion(const NormFusionOptions& options) : options_(options) {}

  /// The output of a norm; empty when libtorch has to compute it. With `branch`, on which its input
  /// was made, the batch's statistics are found there, and its gradients; null: none.
  std::optional<at::Tensor> norm(const BatchNormCall& call,
                                 const std::shared_ptr<Branch>& branch = nullptr);

  /// activation(input), when the input is a norm's output that still waits. In place it is the
  /// input itself.
  std::optional<at::Tensor> activated(const at::Tensor& input, Activation activation,
                                      bool in_place);

  /// left * right, where one still waits and the other is a factor a sample without a gradient. The
  /// product waits, too.
  std::optional<at::Tensor> multiplied(const at::Tensor& left, const at::Tensor& right);

  /// left + right, likewise; in place it is `left`. The sum waits, too.
  std::optional<at::Tensor> added(const at::Tensor& left, const at::Tensor& right, bool in_place);

  /// Somebody is about to read `tensor`, or to write it: what waits for it or with it is computed.
  void touch(const at::Tensor& tensor, bool writes);

  bool waits() const { return !waiting_.empty(); }
  void materialize_all();

  /// Forgets what waits, after a pass that failed.
  void forget_all() { waiting_.clear(); }

 private:
  struct Norm;                 // one call: what its outputs have in common
  class Node;                  // its place in autograd's graph
  struct Joined {              // what stands between a norm and its activation
    at::Tensor factor = {};    // undefined: none
    at::Tensor residual = {};  // undefined: none
    /// Of a residual that waits, too: its values are found on the way. Null: they are there.
    std::shared_ptr<Norm> residual_norm = nullptr;

    bool any() const { return factor.defined() || residual.defined(); }
  };
  struct Waiting {  // an output without values
    c10::weak_intrusive_ptr<c10::TensorImpl> output;
    std::shared_ptr<Norm> norm;
    std::shared_ptr<Node> node;  // null: no gradient is wanted
    Joined joined;
  };
  using Place = std::vector<Waiting>::iterator;

  /// In place, where gradients are not recorded, on a tensor that has a history.
  static bool changes_history(const Waiting& waiting, bool in_place);
  void forget_expired();  // outputs that nobody holds and whose norm has been computed
  Place find(const at::Tensor& tensor);
  void wait(const at::Tensor& output, const std::shared_ptr<Norm>& norm, const Joined& joined);
  /// The norm of a waiting residual that is found on the way where `normed` is computed; null: it
  /// must have values.
  std::shared_ptr<Norm> joined_residual(const at::Tensor& residual, const Waiting& normed);
  /// Computes what waits at `place`, into `output`.
  void compute(Place place, const at::Tensor& output, Activation activation);
  void materialize(Place place);

  NormFusionOptions options_;
  std::vector<Waiting> waiting_;
};

}  // namespace triaccel
