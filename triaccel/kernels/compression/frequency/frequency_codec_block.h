#pragma once

#include "triaccel/kernels/compression/block_transform.h"

// One block's transform, number after number.
namespace triaccel::kernels::cpu {

template <int block>
void transform_line(bool forward, float* x, int stride) {
  float line[block];
  for (int i = 0; i < block; ++i) line[i] = x[i * stride];
  (forward ? Transform<block>::forward : Transform<block>::back)(line);
  for (int i = 0; i < block; ++i) x[i * stride] = line[i];
}

template <int block>
void transform_block(bool forward, float* x) {
  const auto scale = [&] {
    for (int row = 0; row < block; ++row)
      for (int column = 0; column < block; ++column)
        x[row * block + column] *= scale_at<block>(row, column);
  };
  if (!forward) scale();
  for (int row = 0; row < block; ++row) transform_line<block>(forward, x + row * block, 1);
  for (int column = 0; column < block; ++column) transform_line<block>(forward, x + column, block);
  if (forward) scale();
}

/// `x` are the block's elements by row and column.
inline void transform_block(int block, bool forward, float* x) {
  if (block == 8) transform_block<8>(forward, x);
  if (block == 7) transform_block<7>(forward, x);
  if (block == 4) transform_block<4>(forward, x);
}

}  // namespace triaccel::kernels::cpu
