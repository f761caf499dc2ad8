#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace triaccel {

struct AttentionOptions {
  std::int64_t heads = 1;
  bool causal = false;   // a token sees itself and those before it
  double dropout = 0.0;  // on the attention weights; give 0 outside training
};

/// Self-attention from packed queries, keys and values [B, T, 3 * width] to [B, T, width].
at::Tensor self_attention(const at::Tensor& packed, const AttentionOptions& options);

/// Heads of 64 channels, one where the width is smaller; throws UsageError where they do not fit.
std::int64_t heads_for(std::int64_t width);

}  // namespace triaccel
