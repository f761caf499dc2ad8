#pragma once

#include <cstdint>

#include "triaccel/int8/network.h"
#include "triaccel/int8/products/product.h"

namespace triaccel::int8 {

/// One set of weights of a layer and its results.
struct SumTarget {
  const std::int8_t* panel = nullptr;  // rows padded
  std::int32_t* sums = nullptr;        // Layer::outputs() of them, pooled
  std::uint8_t* choices = nullptr;     // choice_bytes(layer): position of each maximum; or null
  std::uint32_t largest = 0;           // result: |sum| before pooling
};

/// Scratch of feature_sums.
struct SumScratch {
  std::int8_t* patches = nullptr;     // patch_bytes(layer)
  std::int32_t* part_sums = nullptr;  // part_sum_count(layer)
};

std::int64_t part_sum_count(const Layer& layer);

/// Two bits per output for 2x2 pooling, 16 for max over points, none without pooling.
std::int64_t choice_bytes(const Layer& layer);

/// Pooled sums of a convolution or point layer for one sample and each target; the input is
/// gathered once for all.
void feature_sums(const Layer& layer, Product product, const std::int8_t* placed,
                  SumTarget* targets, std::int32_t target_count, const SumScratch& scratch);

}  // namespace triaccel::int8
