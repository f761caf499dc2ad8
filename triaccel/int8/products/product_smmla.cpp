#if defined(__aarch64__)

#include <arm_neon.h>

#include "triaccel/int8/products/product_variants.h"

namespace triaccel::int8 {
namespace {

/// Two rows of 16 values: the first eight of both, then the last eight, as smmla expects.
struct RowPair {
  int8x16_t first, last;

  RowPair() = default;
  RowPair(const std::int8_t* upper, const std::int8_t* lower) {
    const int64x2_t u = vreinterpretq_s64_s8(vld1q_s8(upper));
    const int64x2_t l = vreinterpretq_s64_s8(vld1q_s8(lower));
    first = vreinterpretq_s8_s64(vzip1q_s64(u, l));
    last = vreinterpretq_s8_s64(vzip2q_s64(u, l));
  }
};

/// 2·kRowPairs x 2·kColumnPairs dot products; smmla adds eight depths of two rows by two columns.
/// With `odd` the last pair of columns is one column, duplicated and stored once.
template <int kRowPairs, int kColumnPairs>
void tile(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b, bool odd,
          std::int32_t* c) {
  const std::int64_t depth = shape.depth;
  int32x4_t sum[kRowPairs][kColumnPairs];
#pragma GCC unroll 16
  for (int r = 0; r < kRowPairs; ++r)
#pragma GCC unroll 16
    for (int q = 0; q < kColumnPairs; ++q) sum[r][q] = vdupq_n_s32(0);
  const std::int64_t last_column = 2 * kColumnPairs - (odd ? 2 : 1);
  for (std::int64_t k = 0; k < depth; k += kDepthStep) {
    RowPair rows[kRowPairs];
#pragma GCC unroll 16
    for (int r = 0; r < kRowPairs; ++r)
      rows[r] = RowPair(a + 2 * r * depth + k, a + (2 * r + 1) * depth + k);
#pragma GCC unroll 16
    for (int q = 0; q < kColumnPairs; ++q) {
      const std::int64_t second = q == kColumnPairs - 1 ? last_column : 2 * q + 1;
      const RowPair columns(b + 2 * q * depth + k, b + second * depth + k);
#pragma GCC unroll 16
      for (int r = 0; r < kRowPairs; ++r) {
        sum[r][q] = vmmlaq_s32(sum[r][q], rows[r].first, columns.first);
        sum[r][q] = vmmlaq_s32(sum[r][q], rows[r].last, columns.last);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRowPairs; ++r) {
    std::int32_t* upper = c + 2 * r * std::int64_t{shape.c_stride};
    std::int32_t* lower = upper + shape.c_stride;
#pragma GCC unroll 16
    for (int q = 0; q < kColumnPairs; ++q) {
      if (odd && q == kColumnPairs - 1) {
        vst1q_lane_s32(upper + 2 * q, sum[r][q], 0);
        vst1q_lane_s32(lower + 2 * q, sum[r][q], 2);
      } else {
        vst1_s32(upper + 2 * q, vget_low_s32(sum[r][q]));
        vst1_s32(lower + 2 * q, vget_high_s32(sum[r][q]));
      }
    }
  }
}

using Tile = void (*)(const ProductShape&, const std::int8_t*, const std::int8_t*, bool,
                      std::int32_t*);
constexpr Tile kTiles[4][4] = {{tile<1, 1>, tile<1, 2>, tile<1, 3>, tile<1, 4>},
                               {tile<2, 1>, tile<2, 2>, tile<2, 3>, tile<2, 4>},
                               {tile<3, 1>, tile<3, 2>, tile<3, 3>, tile<3, 4>},
                               {tile<4, 1>, tile<4, 2>, tile<4, 3>, tile<4, 4>}};

}  // namespace

void product_smmla(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                   std::int32_t* c) {
  const std::int32_t paired_rows = shape.rows / 2 * 2;
  for (std::int32_t i = 0; i < paired_rows; i += 8) {
    const std::int32_t rows = paired_rows - i < 8 ? paired_rows - i : 8;
    for (std::int32_t j = 0; j < shape.columns; j += 8) {
      const std::int32_t columns = shape.columns - j < 8 ? shape.columns - j : 8;
      kTiles[rows / 2 - 1][(columns + 1) / 2 - 1](
          shape, a + i * std::int64_t{shape.depth}, b + j * std::int64_t{shape.depth},
          columns % 2 != 0, c + i * std::int64_t{shape.c_stride} + j);
    }
  }
  if (paired_rows < shape.rows) {  // a single row would waste half a pair: sdot is as fast
    ProductShape rest = shape;
    rest.rows = 1;
    product_sdot(rest, a + paired_rows * std::int64_t{shape.depth}, b,
                 c + paired_rows * std::int64_t{shape.c_stride});
  }
}

}  // namespace triaccel::int8

#endif
