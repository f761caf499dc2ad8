#pragma once

#include <cstdint>

namespace triaccel::int8 {

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

}  // namespace triaccel::int8
