#include "triaccel/int8/layers/sums.h"

#include <algorithm>
#include <cstring>

#include "triaccel/base/error.h"
#include "triaccel/int8/fixed_point.h"
#include "triaccel/int8/layers/patches.h"
#include "triaccel/int8/network.h"
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

std::uint32_t part_of_target(const Layer& layer, const RowParts& parts, std::int32_t part,
                             Product product, const std::int8_t* rows, const SumTarget& target,
                             std::int32_t* part_sums) {
  const ProductShape shape = {.rows = parts.rows_of(part),
                              .columns = layer.out_channels,
                              .depth = padded_depth(layer.depth()),
                              .c_stride = layer.out_channels};
  const std::int32_t first_unit = part * parts.units_per_part;
  switch (layer.pooling) {
    case Pooling::None: {
      std::int32_t* to =
          target.sums + std::int64_t{first_unit} * parts.rows_per_unit * layer.out_channels;
      checked_product(product, shape, rows, target.panel, to);
      return largest_magnitude(to, std::int64_t{shape.rows} * shape.columns);
    }
    case Pooling::Max2x2: {
      checked_product(product, shape, rows, target.panel, part_sums);
      const std::int32_t count = shape.rows / 4 * shape.columns;
      const std::int64_t first =
          std::int64_t{first_unit} * (parts.rows_per_unit / 4) * shape.columns;
      if (target.choices == nullptr) return pool_four(part_sums, count, target.sums + first);
      return pool_four(part_sums, count, target.sums + first, first, target.choices);
    }
    case Pooling::MaxOverPoints: {
      checked_product(product, shape, rows, target.panel, part_sums);
      return pool_points(part_sums, shape.rows, shape.columns, first_unit, target.sums,
                         reinterpret_cast<std::uint16_t*>(target.choices));
    }
  }
  return 0;
}

}  // namespace

void check_product(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                   const std::int32_t* c) {
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    for (std::int64_t j = 0; j < shape.columns; ++j) {
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < shape.depth; ++k)
        sum += std::int64_t{a[i * shape.depth + k]} * b[j * shape.depth + k];
      ensure(sum == c[i * shape.c_stride + j], "sum of a product fits int32 and is exact");
    }
  }
}

void check_scaled_sum(const std::int8_t* values, std::int32_t count, std::int32_t factor,
                      const std::int32_t* sums) {
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int64_t sum = sums[i] + std::int64_t{factor} * values[i];
    ensure(sum == static_cast<std::int32_t>(sum), "sum of a gradient fits int32");
  }
}

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

std::int64_t part_sum_count(const Layer& layer) {
  if (layer.pooling == Pooling::None) return 0;
  return std::int64_t{row_parts(layer).rows_of(0)} * layer.out_channels;
}

std::int64_t choice_bytes(const Layer& layer) {
  switch (layer.pooling) {
    case Pooling::None:
      return 0;
    case Pooling::Max2x2:
      return (layer.outputs() + 3) / 4;
    case Pooling::MaxOverPoints:
      return std::int64_t{2} * layer.outputs();
  }
  return 0;
}

void feature_sums(const Layer& layer, Product product, const std::int8_t* placed,
                  SumTarget* targets, std::int32_t target_count, const SumScratch& scratch) {
  const RowParts parts = row_parts(layer);
  for (std::int32_t t = 0; t < target_count; ++t) {
    targets[t].largest = 0;
    if (targets[t].choices != nullptr)
      std::memset(targets[t].choices, 0, static_cast<std::size_t>(choice_bytes(layer)));
  }
  for (std::int32_t part = 0; part < parts.parts(); ++part) {
    const std::int8_t* rows = part_rows(layer, parts, part, placed, scratch.patches);
    for (std::int32_t t = 0; t < target_count; ++t)
      targets[t].largest = std::max(
          targets[t].largest,
          part_of_target(layer, parts, part, product, rows, targets[t], scratch.part_sums));
  }
}

}  // namespace triaccel::int8
