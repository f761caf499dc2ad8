#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace triaccel {

struct AttentionOptions {
  std::int64_t heads = 1;
  bool causal = false;   // a token attends to itself and earlier tokens
  double dropout = 0.0;  // on the attention weights; pass 0 outside training
};

/// Self-attention from packed queries, keys and values [B, T, 3 * width] to [B, T, width].
at::Tensor self_attention(const at::Tensor& packed, const AttentionOptions& options);

/// Number of heads of 64 channels (one for smaller widths); throws UsageError if not divisible.
std::int64_t heads_for(std::int64_t width);

}  // namespace triaccel
