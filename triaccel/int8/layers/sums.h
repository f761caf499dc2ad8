#pragma once

#include <cstdint>

#include "triaccel/int8/network.h"
#include "triaccel/int8/products/product.h"

namespace triaccel::int8 {

/// Whether this build also computes every sum in int64 and throws on a difference.
#ifdef TRIACCEL_INT8_SHADOW
inline constexpr bool kShadow = true;
#else
inline constexpr bool kShadow = false;
#endif

/// Throws std::logic_error unless c is the product of a and b in int64.
void check_product(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                   const std::int32_t* c);

/// Throws std::logic_error if sums + factor · values overflows int32.
void check_scaled_sum(const std::int8_t* values, std::int32_t count, std::int32_t factor,
                      const std::int32_t* sums);

inline void checked_product(Product product, const ProductShape& shape, const std::int8_t* a,
                            const std::int8_t* b, std::int32_t* c) {
  product(shape, a, b, c);
  if constexpr (kShadow) check_product(shape, a, b, c);
}

/// The largest |sum|.
std::uint32_t largest_magnitude(const std::int32_t* sums, std::int64_t count);

/// Mantissas of sums after `shift`, to the nearest; with `relu`, negative ones become zero.
void requantise_sums(const std::int32_t* sums, std::int64_t count, std::int32_t shift, bool relu,
                     std::int8_t* mantissas);

/// Elementwise maximum of four contiguous arrays of `count`, and the largest |sum| of all. ReLU,
/// pooling and rounding are monotone and therefore commute; only the shift depends on all sums.
std::uint32_t pool_four(const std::int32_t* sums, std::int32_t count, std::int32_t* pooled);

/// The same, and the index of the maximum (the first of equals), two bits each: element i is number
/// first + i of `choices`, which must be initialized to zero.
std::uint32_t pool_four(const std::int32_t* sums, std::int32_t count, std::int32_t* pooled,
                        std::int64_t first, std::uint8_t* choices);

/// Maximum over rows (points) of each column, combined with `pooled` unless `row` (the index of the
/// first row) is 0. `choices`, if not null: the row of the maximum, the first of equals.
std::uint32_t pool_points(const std::int32_t* sums, std::int32_t rows, std::int32_t columns,
                          std::int32_t row, std::int32_t* pooled, std::uint16_t* choices);

/// sums[i] += factor · values[i]
void add_scaled(const std::int8_t* values, std::int32_t count, std::int32_t factor,
                std::int32_t* sums);

/// sums[i] += factor_a · a[i] + factor_b · b[i]
void add_two_scaled(const std::int8_t* a, std::int32_t factor_a, const std::int8_t* b,
                    std::int32_t factor_b, std::int32_t count, std::int32_t* sums);

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
