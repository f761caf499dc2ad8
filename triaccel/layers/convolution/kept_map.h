#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>

#include "triaccel/ops/tensors/autograd_node.h"

namespace triaccel {

/// A node that can make its output once more, bit for bit, so that nobody has to keep it.
class RecomputesOutput {
 public:
  virtual ~RecomputesOutput() = default;
  virtual bool can_recompute() const = 0;
  /// Until the node's own backward pass has run, which comes after that of all who read its output.
  virtual at::Tensor output_again() const = 0;
};

/// A map that backward reads: kept, or computed again by the node that made it.
class KeptMap {
 public:
  /// `recompute`: where its maker can.
  KeptMap(const at::Tensor& map, bool recompute);

  /// `reader` is the node that keeps it.
  at::Tensor get(const NodePtr& reader) const;
  void release();

 private:
  std::shared_ptr<RecomputesOutput> maker_;  // null: it is kept
  torch::autograd::SavedVariable kept_;
};

}  // namespace triaccel
