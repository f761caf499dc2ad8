#pragma once

#include <algorithm>
#include <cstdint>

#include "triaccel/core/frequency_bands.h"

namespace triaccel::kernels::cpu {

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
