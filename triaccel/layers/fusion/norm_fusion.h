#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "triaccel/layers/execution/branches.h"
#include "triaccel/layers/fusion/deferred_operations.h"
#include "triaccel/layers/scope/operator_scope.h"
#include "triaccel/ops/norm/batch_norm.h"

namespace triaccel {

struct NormFusionOptions {
  bool fuse = false;  // false leaves every norm to libtorch
  /// Keep the mask of every ReLU behind a norm, not only of those that backward cannot recompute
  /// from the norm's input: for inputs that a lossy codec changes.
  bool keep_relu_masks = false;
};

/// Evaluates batch norm lazily, so that it fuses with the per-sample factor (stochastic depth), the
/// residual add and the activation that follow it: the map is read and written once, forward and
/// backward, and nothing in between is saved.
class NormFusion {
 public:
  NormFusion(const NormFusionOptions& options, DeferredOperations& deferred)
      : options_(options), deferred_(deferred) {}

  /// The output of a norm, deferred; empty when libtorch has to compute it. With `branch`, on which
  /// its input was made, the batch's statistics are computed there, and its gradients.
  std::optional<at::Tensor> norm(const BatchNormCall& call,
                                 const std::shared_ptr<Branch>& branch = nullptr);

  /// activation(input), when the input is a deferred norm. In place it is the input itself.
  std::optional<at::Tensor> activated(const at::Tensor& input, Activation activation,
                                      bool in_place);

  /// left * right, where one is deferred and the other a per-sample factor without a gradient. The
  /// product is deferred, too.
  std::optional<at::Tensor> multiplied(const at::Tensor& left, const at::Tensor& right);

  /// left + right, likewise; in place it is `left`. The sum is deferred, too.
  std::optional<at::Tensor> added(const at::Tensor& left, const at::Tensor& right, bool in_place);

 private:
  struct Norm;      // one call: what its outputs have in common
  struct Epilogue;  // what is fused between a norm and its activation
  class Node;       // its node in autograd's graph
  class Operation;  // a deferred output

  std::shared_ptr<Operation> find(const at::Tensor& tensor) const;
  /// Whether an operation on the deferred `output` in place may be fused; else its values are
  /// there.
  bool may_change_in_place(const at::Tensor& output);
  /// Values of an operand that is not a deferred norm itself.
  void materialize_unless_norm(const at::Tensor& operand);
  /// Gives `output` its node in the graph.
  std::shared_ptr<Operation> operation_for(const at::Tensor& output,
                                           const std::shared_ptr<Norm>& norm,
                                           const Epilogue& epilogue);
  /// The norm of a deferred residual that can be computed on the way where `normed` is; null: the
  /// residual must have values.
  std::shared_ptr<Norm> fusable_residual(const at::Tensor& residual, const Operation& normed) const;

  NormFusionOptions options_;
  DeferredOperations& deferred_;
};

}  // namespace triaccel
