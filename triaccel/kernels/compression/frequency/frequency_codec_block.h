#pragma once

#include <algorithm>
#include <cstdint>

#include "triaccel/core/frequency_bands.h"
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

/// Where one block of a unit lies.
struct BlockPlace {
  std::int64_t element;  // its first
  std::int64_t image;
  int rows, columns;  // that it has of the map
  bool exists;        // else it stands in for one that the last units lack
};

/// Block `number` of a unit, counted through its chunks.
inline BlockPlace place_of(const BlockMap& map, const FrequencyLayout& layout, int block,
                           std::int64_t unit, int number) {
  const std::int64_t real = std::min(unit, layout.units - 1);
  const std::int64_t group = real / map.channels, channel = real % map.channels;
  const std::int64_t wanted = group * kUnitChunks * blocks_of_chunk(block) + number;
  const std::int64_t position = std::min(wanted, layout.positions - 1);
  const std::int64_t line = position / layout.block_columns;
  const std::int64_t column = position % layout.block_columns * block;
  const std::int64_t row = line % layout.block_rows * block, image = line / layout.block_rows;
  return {map.offset + image * map.image_stride + channel * map.channel_stride +
              row * map.row_stride + column * map.column_stride,
          image, static_cast<int>(std::min<std::int64_t>(block, map.rows - row)),
          static_cast<int>(std::min<std::int64_t>(block, map.columns - column)),
          unit == real && wanted == position};
}

}  // namespace triaccel::kernels::cpu
