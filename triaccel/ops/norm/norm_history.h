#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/ops/norm/batch_norm.h"

namespace triaccel {

/// How a batch norm that is joined with others made its output, for whoever computes it again:
/// activation(((input - mean) * inverse_deviation * weight + bias) * factor + residual), the factor
/// a sample, all else per channel.
struct NormHistory {
  NormStatistics statistics;
  at::Tensor weight, bias;  // undefined: 1, 0
  Activation activation = Activation::None;
  bool has_factor = false;
  bool has_residual = false;
};

/// A node of autograd's graph that can tell; the norm's input is the first tensor it saves.
class HasNormHistory {
 public:
  virtual ~HasNormHistory() = default;
  virtual NormHistory norm_history() const = 0;
};

}  // namespace triaccel
