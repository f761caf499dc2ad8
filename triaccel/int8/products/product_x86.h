#pragma once

#include <immintrin.h>

#include "triaccel/int8/products/product_variants.h"

// Two algorithms shared by the x86 kernels, each of which provides its instructions as `Isa`.
// Included once by each source, in an unnamed namespace because their flags differ (see
// product_variants.h).
//
//   panels  b is rearranged so that a vector holds four depths of as many columns as it has
//           32-bit lanes; four depths of a row of a are broadcast, so that no sum crosses lanes.
//           Pays off when several rows share the rearranged panel.
//   dots    both operands along the depth, as stored.
namespace triaccel::int8 {
namespace {

inline constexpr std::int32_t kChunk = 512;  // depths of b rearranged at a time, to stay in L1

inline std::int32_t smaller(std::int32_t left, std::int32_t right) {
  return left < right ? left : right;
}

inline __m128i load16(const std::int8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

/// panel[k / 4][column][k % 4] <- b[column][k] for `width` columns, a multiple of four. Columns
/// beyond `columns` repeat the last.
inline void fill_panel(const std::int8_t* b, std::int32_t stride, std::int32_t columns,
                       std::int32_t depth, std::int32_t width, std::int8_t* panel) {
  for (std::int32_t column = 0; column < width; column += 4) {
    const std::int8_t* row[4];
    for (std::int32_t q = 0; q < 4; ++q)
      row[q] = b + std::int64_t{smaller(column + q, columns - 1)} * stride;
    for (std::int32_t k = 0; k < depth; k += kDepthStep) {
      const __m128i r0 = load16(row[0] + k);
      const __m128i r1 = load16(row[1] + k);
      const __m128i r2 = load16(row[2] + k);
      const __m128i r3 = load16(row[3] + k);
      const __m128i low01 = _mm_unpacklo_epi32(r0, r1);
      const __m128i low23 = _mm_unpacklo_epi32(r2, r3);
      const __m128i high01 = _mm_unpackhi_epi32(r0, r1);
      const __m128i high23 = _mm_unpackhi_epi32(r2, r3);
      auto* to = reinterpret_cast<__m128i*>(panel + k * width + column * 4);
      const std::int32_t step = width / 4;  // from four depths to the next, in vectors
      _mm_store_si128(to, _mm_unpacklo_epi64(low01, low23));
      _mm_store_si128(to + step, _mm_unpackhi_epi64(low01, low23));
      _mm_store_si128(to + 2 * step, _mm_unpacklo_epi64(high01, high23));
      _mm_store_si128(to + 3 * step, _mm_unpackhi_epi64(high01, high23));
    }
  }
}

/// Correction of each sum for the offset of 128 in the other operand, for instructions that
/// multiply unsigned by signed bytes.
template <typename Isa>
inline typename Isa::Vector less_excess(const std::int8_t* panel, std::int32_t count,
                                        std::int32_t stride) {
  typename Isa::Vector excess = Isa::zero();
  for (std::int32_t i = 0; i < count; ++i)
    excess = Isa::add_excess(excess, Isa::load(panel + i * stride));
  return Isa::subtract(Isa::zero(), excess);
}

inline bool any_negative(const std::int8_t* values, std::int64_t count) {
  const auto load32 = [](const std::int8_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  };
  __m256i seen[4] = {};
  std::int64_t i = 0;
  for (; i + 128 <= count; i += 128) {
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) seen[q] = _mm256_or_si256(seen[q], load32(values + i + 32 * q));
  }
  __m128i rest = _mm_setzero_si128();
  for (; i < count; i += 16) rest = _mm_or_si128(rest, load16(values + i));
  const __m256i all =
      _mm256_or_si256(_mm256_or_si256(seen[0], seen[1]), _mm256_or_si256(seen[2], seen[3]));
  return (_mm256_movemask_epi8(all) | _mm_movemask_epi8(rest)) != 0;
}

inline std::int32_t four_bytes(const std::int8_t* from) {
  std::int32_t word;
  __builtin_memcpy(&word, from, sizeof(word));
  return word;
}

/// A chunk of the panels.
struct PanelWork {
  const std::int8_t* panel;
  std::int32_t depth;    // of this chunk
  bool adds;             // accumulate to the sums of earlier chunks
  std::int32_t columns;  // valid ones
  std::int32_t c_stride;
};

/// kRows rows, or the remaining `rows` if not kFull.
template <typename Isa, bool kSigned, int kRows, int kPanels, bool kFull>
inline void row_block(const PanelWork& work, const typename Isa::Vector* start,
                      const std::int8_t* a, std::int32_t a_stride, std::int32_t rows,
                      std::int32_t* c) {
  using Vector = typename Isa::Vector;
  const std::int8_t* row[kRows];
  Vector sum[kRows][kPanels];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    row[r] = a + std::int64_t{kFull ? r : smaller(r, rows - 1)} * a_stride;
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) sum[r][p] = start[p];
  }
  const std::int8_t* panel = work.panel;
  for (std::int32_t k = 0; k < work.depth; k += 4) {
    Vector column[kPanels];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p)
      column[p] = Isa::load(panel + p * static_cast<int>(sizeof(Vector)));
    panel += kPanels * static_cast<int>(sizeof(Vector));
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const auto factor = Isa::template factor<kSigned>(Isa::broadcast(four_bytes(row[r] + k)));
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) sum[r][p] = Isa::dot(sum[r][p], factor, column[p]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    if (!kFull && r >= rows) break;
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      const std::int32_t valid = smaller(work.columns - p * Isa::kLanes, Isa::kLanes);
      if (valid <= 0) break;
      std::int32_t* to = c + std::int64_t{r} * work.c_stride + p * Isa::kLanes;
      if (work.adds) sum[r][p] = Isa::add(sum[r][p], Isa::load_lanes(to, valid));
      Isa::store_lanes(to, sum[r][p], valid);
    }
  }
}

template <typename Isa, bool kSigned, int kPanels>
inline void panel_columns(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                          std::int32_t* c, std::int32_t columns) {
  constexpr int kRows = kPanels == 1 ? Isa::kRowsOfOnePanel : Isa::kRowsOfTwoPanels;
  constexpr std::int32_t kWidth = kPanels * Isa::kLanes;
  alignas(64) std::int8_t panel[kWidth * kChunk];
  for (std::int32_t k = 0; k < shape.depth; k += kChunk) {
    const std::int32_t depth = smaller(kChunk, shape.depth - k);
    fill_panel(b + k, shape.depth, columns, depth, kWidth, panel);
    const PanelWork work{panel, depth, k > 0, columns, shape.c_stride};
    typename Isa::Vector start[kPanels];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      start[p] = Isa::template correction<kSigned>(panel + p * static_cast<int>(sizeof(start[p])),
                                                   depth / 4, kWidth * 4);
    }
    for (std::int32_t i = 0; i < shape.rows; i += kRows) {
      const std::int8_t* rows = a + std::int64_t{i} * shape.depth + k;
      std::int32_t* to = c + std::int64_t{i} * shape.c_stride;
      const std::int32_t left = shape.rows - i;
      if (left >= kRows) {
        row_block<Isa, kSigned, kRows, kPanels, true>(work, start, rows, shape.depth, left, to);
      } else {
        row_block<Isa, kSigned, kRows, kPanels, false>(work, start, rows, shape.depth, left, to);
      }
    }
  }
}

template <typename Isa, bool kSigned>
inline void panels(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                   std::int32_t* c) {
  for (std::int32_t j = 0; j < shape.columns;) {
    const std::int32_t left = shape.columns - j;
    const std::int8_t* from = b + std::int64_t{j} * shape.depth;
    if (left > Isa::kLanes) {
      panel_columns<Isa, kSigned, 2>(shape, a, from, c + j, smaller(left, 2 * Isa::kLanes));
      j += 2 * Isa::kLanes;
    } else {
      panel_columns<Isa, kSigned, 1>(shape, a, from, c + j, left);
      j += Isa::kLanes;
    }
  }
}

/// Four columns of `kRows` rows; those beyond `columns` repeat the last and are not stored.
template <typename Isa, int kRows>
inline void dots_block(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                       std::int32_t columns, std::int32_t* c) {
  using Vector = typename Isa::Vector;
  constexpr std::int32_t kBytes = sizeof(Vector);
  const std::int8_t* column[4];
  for (std::int32_t q = 0; q < 4; ++q)
    column[q] = b + std::int64_t{smaller(q, columns - 1)} * shape.depth;
  Vector sum[kRows][4];
  Vector excess[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    excess[r] = Isa::zero();
#pragma GCC unroll 16
    for (int q = 0; q < 4; ++q) sum[r][q] = excess[r];
  }
  const auto step = [&](std::int32_t k, auto load) {
    Vector value[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      value[r] = load(a + std::int64_t{r} * shape.depth + k);
      excess[r] = Isa::add_excess(excess[r], value[r]);
    }
#pragma GCC unroll 16
    for (int q = 0; q < 4; ++q) {
      const auto factor = Isa::template factor<true>(load(column[q] + k));
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sum[r][q] = Isa::dot(sum[r][q], factor, value[r]);
    }
  };
  std::int32_t k = 0;
  for (; k + kBytes <= shape.depth; k += kBytes) step(k, Isa::load);
  if (k < shape.depth) {
    const std::int32_t bytes = shape.depth - k;
    step(k, [bytes](const std::int8_t* from) { return Isa::load_part(from, bytes); });
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int q = 0; q < 4; ++q) sum[r][q] = Isa::subtract(sum[r][q], excess[r]);
    alignas(16) std::int32_t total[4];
    _mm_store_si128(reinterpret_cast<__m128i*>(total),
                    Isa::totals(sum[r][0], sum[r][1], sum[r][2], sum[r][3]));
    std::int32_t* to = c + std::int64_t{r} * shape.c_stride;
    for (std::int32_t q = 0; q < 4 && q < columns; ++q) to[q] = total[q];
  }
}

template <typename Isa>
inline void dots(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                 std::int32_t* c) {
  for (std::int32_t i = 0; i < shape.rows;) {
    const std::int32_t rows = shape.rows - i;
    for (std::int32_t j = 0; j < shape.columns; j += 4) {
      const std::int8_t* from_a = a + std::int64_t{i} * shape.depth;
      const std::int8_t* from_b = b + std::int64_t{j} * shape.depth;
      std::int32_t* to = c + std::int64_t{i} * shape.c_stride + j;
      if (rows >= 2) {
        dots_block<Isa, 2>(shape, from_a, from_b, shape.columns - j, to);
      } else {
        dots_block<Isa, 1>(shape, from_a, from_b, shape.columns - j, to);
      }
    }
    i += rows >= 2 ? 2 : 1;
  }
}

template <typename Isa>
inline void x86_product(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                        std::int32_t* c) {
  if (shape.rows * Isa::kRowsPay < shape.depth) {
    dots<Isa>(shape, a, b, c);
  } else if (any_negative(a, std::int64_t{shape.rows} * shape.depth)) {
    panels<Isa, true>(shape, a, b, c);
  } else {
    panels<Isa, false>(shape, a, b, c);
  }
}

/// Common parts of the kernels with 256-bit registers.
struct Wide256 {
  using Vector = __m256i;
  static constexpr std::int32_t kLanes = 8;

  static Vector zero() { return _mm256_setzero_si256(); }
  static Vector load(const std::int8_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  /// The only possible remainder of a padded depth is half a vector.
  static Vector load_part(const std::int8_t* from, std::int32_t) {
    return _mm256_zextsi128_si256(load16(from));
  }
  static Vector broadcast(std::int32_t word) { return _mm256_set1_epi32(word); }
  static Vector add(Vector left, Vector right) { return _mm256_add_epi32(left, right); }
  static Vector subtract(Vector left, Vector right) { return _mm256_sub_epi32(left, right); }

  static Vector first(std::int32_t lanes) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Vector load_lanes(const std::int32_t* from, std::int32_t lanes) {
    return _mm256_maskload_epi32(from, first(lanes));
  }
  static void store_lanes(std::int32_t* to, Vector values, std::int32_t lanes) {
    _mm256_maskstore_epi32(to, first(lanes), values);
  }
  static __m128i totals(Vector v0, Vector v1, Vector v2, Vector v3) {
    const __m256i sums = _mm256_hadd_epi32(_mm256_hadd_epi32(v0, v1), _mm256_hadd_epi32(v2, v3));
    return _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  }
};

}  // namespace
}  // namespace triaccel::int8
