#pragma once

#include <arm_neon.h>

#include "triaccel/int8/products/product_variants.h"

// Tiling of the Arm kernels: tiles of up to four by four dot products, both operands along the
// depth as stored. Included once by each source, in an unnamed namespace because their flags differ
// (see product_variants.h).
namespace triaccel::int8 {
namespace {

/// `kRows` x `kColumns` dot products. `Isa::add(sum, a, b)` adds 16 products to 4 partial sums.
template <typename Isa, int kRows, int kColumns>
inline void tile(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                 std::int32_t* c) {
  int32x4_t sum[kRows][4];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int q = 0; q < 4; ++q) sum[r][q] = vdupq_n_s32(0);
  for (std::int64_t k = 0; k < shape.depth; k += kDepthStep) {
    int8x16_t row[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) row[r] = vld1q_s8(a + r * std::int64_t{shape.depth} + k);
#pragma GCC unroll 16
    for (int q = 0; q < kColumns; ++q) {
      const int8x16_t column = vld1q_s8(b + q * std::int64_t{shape.depth} + k);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sum[r][q] = Isa::add(sum[r][q], row[r], column);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const int32x4_t total =
        vpaddq_s32(vpaddq_s32(sum[r][0], sum[r][1]), vpaddq_s32(sum[r][2], sum[r][3]));
    std::int32_t* to = c + r * std::int64_t{shape.c_stride};
    if (kColumns == 4) {
      vst1q_s32(to, total);
    } else {
      if (kColumns >= 2) vst1_s32(to, vget_low_s32(total));
      if (kColumns == 1) vst1q_lane_s32(to, total, 0);
      if (kColumns == 3) vst1q_lane_s32(to + 2, total, 2);
    }
  }
}

using Tile = void (*)(const ProductShape&, const std::int8_t*, const std::int8_t*, std::int32_t*);

template <typename Isa>
inline void arm_product(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                        std::int32_t* c) {
  static constexpr Tile kTiles[4][4] = {
      {tile<Isa, 1, 1>, tile<Isa, 1, 2>, tile<Isa, 1, 3>, tile<Isa, 1, 4>},
      {tile<Isa, 2, 1>, tile<Isa, 2, 2>, tile<Isa, 2, 3>, tile<Isa, 2, 4>},
      {tile<Isa, 3, 1>, tile<Isa, 3, 2>, tile<Isa, 3, 3>, tile<Isa, 3, 4>},
      {tile<Isa, 4, 1>, tile<Isa, 4, 2>, tile<Isa, 4, 3>, tile<Isa, 4, 4>}};
  for (std::int32_t i = 0; i < shape.rows; i += 4) {
    const std::int32_t rows = shape.rows - i < 4 ? shape.rows - i : 4;
    for (std::int32_t j = 0; j < shape.columns; j += 4) {
      const std::int32_t columns = shape.columns - j < 4 ? shape.columns - j : 4;
      kTiles[rows - 1][columns - 1](shape, a + i * std::int64_t{shape.depth},
                                    b + j * std::int64_t{shape.depth},
                                    c + i * std::int64_t{shape.c_stride} + j);
    }
  }
}

}  // namespace
}  // namespace triaccel::int8
