#include "triaccel/int8/layers/sums.h"

#include "triaccel/int8/fixed_point.h"
#include "triaccel/int8/shadow.h"
#include "triaccel/int8/threads.h"

namespace triaccel::int8 {
namespace {

std::int32_t larger(std::int32_t a, std::int32_t b) { return a > b ? a : b; }
std::int32_t smaller(std::int32_t a, std::int32_t b) { return a < b ? a : b; }

/// Uses minimum and maximum, which vectorize better than magnitudes.
std::uint32_t outer_magnitude(std::int32_t low, std::int32_t high) {
  const std::uint32_t below = magnitude(low < 0 ? low : 0);
  const std::uint32_t above = magnitude(high > 0 ? high : 0);
  return below > above ? below : above;
}

}  // namespace

TRIACCEL_WIDE_LOOP std::uint32_t largest_magnitude(const std::int32_t* sums, std::int64_t count) {
  std::int32_t low = 0;
  std::int32_t high = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    low = smaller(low, sums[i]);
    high = larger(high, sums[i]);
  }
  return outer_magnitude(low, high);
}

TRIACCEL_WIDE_LOOP void requantise_sums(const std::int32_t* __restrict sums, std::int64_t count,
                                        std::int32_t shift, bool relu,
                                        std::int8_t* __restrict mantissas) {
  if (relu) {
    // Negative sums are clamped to zero first; the rest plus one half fits unsigned 32 bits.
    const std::uint32_t half = shift == 0 ? 0u : 1u << (shift - 1);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t size = static_cast<std::uint32_t>(larger(sums[i], 0));
      const std::uint32_t rounded = (size + half) >> shift;
      mantissas[i] = static_cast<std::int8_t>(rounded < 127u ? rounded : 127u);
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) mantissas[i] = requantise(sums[i], shift);
}

TRIACCEL_WIDE_LOOP std::uint32_t pool_four(const std::int32_t* __restrict sums, std::int32_t count,
                                           std::int32_t* __restrict pooled) {
  const std::int32_t* b = sums + count;
  const std::int32_t* c = b + count;
  const std::int32_t* d = c + count;
  std::int32_t low = 0;
  std::int32_t high = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t most = larger(larger(sums[i], b[i]), larger(c[i], d[i]));
    const std::int32_t least = smaller(smaller(sums[i], b[i]), smaller(c[i], d[i]));
    pooled[i] = most;
    low = smaller(low, least);
    high = larger(high, most);
  }
  return outer_magnitude(low, high);
}

std::uint32_t pool_four(const std::int32_t* sums, std::int32_t count, std::int32_t* pooled,
                        std::int64_t first, std::uint8_t* choices) {
  for (std::int32_t i = 0; i < count; ++i) {
    std::uint32_t choice = 0;
    for (std::uint32_t k = 1; k < 4; ++k) {
      if (sums[i + static_cast<std::int32_t>(k) * count] >
          sums[i + static_cast<std::int32_t>(choice) * count])
        choice = k;
    }
    const std::int64_t index = first + i;
    std::uint8_t& byte = choices[index >> 2];
    byte = static_cast<std::uint8_t>(byte | choice << ((index & 3) * 2));
  }
  return pool_four(sums, count, pooled);
}

TRIACCEL_WIDE_LOOP std::uint32_t pool_points(const std::int32_t* __restrict sums, std::int32_t rows,
                                             std::int32_t columns, std::int32_t row,
                                             std::int32_t* __restrict pooled,
                                             std::uint16_t* __restrict choices) {
  std::int32_t low = 0;
  std::int32_t high = 0;
  for (std::int32_t r = 0; r < rows; ++r) {
    const std::int32_t* from = sums + std::int64_t{r} * columns;
    const bool start = row + r == 0;
    if (choices != nullptr) {
      for (std::int32_t j = 0; j < columns; ++j) {
        if (start || from[j] > pooled[j]) choices[j] = static_cast<std::uint16_t>(row + r);
      }
    }
    for (std::int32_t j = 0; j < columns; ++j) {
      low = smaller(low, from[j]);
      high = larger(high, from[j]);
    }
    if (start) {
      for (std::int32_t j = 0; j < columns; ++j) pooled[j] = from[j];
    } else {
      for (std::int32_t j = 0; j < columns; ++j) pooled[j] = larger(pooled[j], from[j]);
    }
  }
  return outer_magnitude(low, high);
}

TRIACCEL_WIDE_LOOP void add_scaled(const std::int8_t* __restrict values, std::int32_t count,
                                   std::int32_t factor, std::int32_t* __restrict sums) {
  if constexpr (kShadow) check_scaled_sum(values, count, factor, sums);
  for (std::int32_t i = 0; i < count; ++i)  // 127 · 127 fits int16, which multiplies faster
    sums[i] += static_cast<std::int16_t>(factor * values[i]);
}

TRIACCEL_WIDE_LOOP void add_two_scaled(const std::int8_t* __restrict a, std::int32_t factor_a,
                                       const std::int8_t* __restrict b, std::int32_t factor_b,
                                       std::int32_t count, std::int32_t* __restrict sums) {
  if constexpr (kShadow) {
    add_scaled(a, count, factor_a, sums);
    add_scaled(b, count, factor_b, sums);
    return;
  }
  for (std::int32_t i = 0; i < count; ++i)  // 2 · 127 · 127 fits int16 as well
    sums[i] += static_cast<std::int16_t>(factor_a * a[i] + factor_b * b[i]);
}

}  // namespace triaccel::int8
