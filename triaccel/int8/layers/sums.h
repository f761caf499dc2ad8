#pragma once

#include <cstdint>

namespace triaccel::int8 {

/// The largest |sum|.
std::uint32_t largest_magnitude(const std::int32_t* sums, std::int64_t count);

/// Mantissas of sums after `shift`, to the nearest; with `relu`, negative ones become zero.
void requantise_sums(const std::int32_t* sums, std::int64_t count, std::int32_t shift, bool relu,
                     std::int8_t* mantissas);

/// Elementwise maximum of four arrays of `count` that lie one after the other, and the largest
/// |sum| among them all. ReLU, pooling and rounding are monotone, so they may change places; only
/// the shift must come from all sums.
std::uint32_t pool_four(const std::int32_t* sums, std::int32_t count, std::int32_t* pooled);

/// The same, and which of the four it was (the first of equals), two bits each: element i of this
/// call is number first + i of `choices`, which starts as zeros.
std::uint32_t pool_four(const std::int32_t* sums, std::int32_t count, std::int32_t* pooled,
                        std::int64_t first, std::uint8_t* choices);

/// Maximum over rows (points) of each column, joined with what `pooled` holds unless `row` (of the
/// first here) is 0. `choices`, if not null: the row it came from, the first of equals.
std::uint32_t pool_points(const std::int32_t* sums, std::int32_t rows, std::int32_t columns,
                          std::int32_t row, std::int32_t* pooled, std::uint16_t* choices);

/// sums[i] += factor · values[i]
void add_scaled(const std::int8_t* values, std::int32_t count, std::int32_t factor,
                std::int32_t* sums);

/// sums[i] += factor_a · a[i] + factor_b · b[i]
void add_two_scaled(const std::int8_t* a, std::int32_t factor_a, const std::int8_t* b,
                    std::int32_t factor_b, std::int32_t count, std::int32_t* sums);

}  // namespace triaccel::int8
