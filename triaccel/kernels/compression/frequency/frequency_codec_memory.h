#pragma once

#include <algorithm>
#include <cstdint>

#include "triaccel/core/frequency_bands.h"
#include "triaccel/kernels/compression/frequency/frequency_codec.h"
#include "triaccel/kernels/compression/frequency/frequency_codec_lanes.h"

// Blocks between a map and the lanes of a chunk.
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

/// Lanes of a tile whose units share their positions: channels that follow each other.
struct LaneRun {
  int begin, end;
};

inline LaneRun run_from(const BlockMap& map, const FrequencyLayout& layout, std::int64_t tile,
                        int lane) {
  const std::int64_t unit = tile * kTileUnits + lane;
  if (unit >= layout.units) return {lane, lane + 1};
  const std::int64_t left = std::min(map.channels - unit % map.channels, layout.units - unit);
  return {lane, static_cast<int>(std::min<std::int64_t>(kTileUnits, lane + left))};
}

/// body(lanes, place of the block in the first lane, its number in the chunk) for every block.
template <typename Body>
void for_each_run(const FrequencyCoding& coding, const FrequencyLayout& layout, std::int64_t tile,
                  int chunk, Body body) {
  const int blocks = blocks_of_chunk(coding.block);
  for (int lane = 0; lane < kTileUnits;) {
    const LaneRun run = run_from(coding.map, layout, tile, lane);
    for (int number = 0; number < blocks; ++number)
      body(run,
           place_of(coding.map, layout, coding.block, tile * kTileUnits + lane,
                    chunk * blocks + number),
           number);
    lane = run.end;
  }
}

/// Where the elements of a block lie, relative to its first; those that the map lacks repeat
/// others.
struct BlockElements {
  std::int64_t at[kMaxCoefficients];
};

inline BlockElements elements_of(const FrequencyCoding& coding, const BlockPlace& place) {
  BlockElements elements;
  for (int row = 0, i = 0; row < coding.block; ++row)
    for (int column = 0; column < coding.block; ++column, ++i)
      elements.at[i] = std::min(row, place.rows - 1) * coding.map.row_stride +
                       std::min(column, place.columns - 1) * coding.map.column_stride;
  return elements;
}

template <typename Stored>
void load_lanes(const FrequencyCoding& coding, const FrequencyLayout& layout, const void* values,
                std::int64_t tile, int chunk, LaneChunk& to) {
  const std::int64_t step = coding.map.channel_stride;
  const int count = coefficients_of(coding.block);
  for_each_run(coding, layout, tile, chunk, [&](LaneRun run, const BlockPlace& place, int number) {
    const auto* from = static_cast<const typename Stored::Word*>(values) + place.element;
    const BlockElements elements = elements_of(coding, place);
    LaneFloats* x = to.numbers + number * count;
    if (step == 1 && run.end - run.begin == kTileUnits) {
      for (int i = 0; i < count; ++i)
        for (int lane = 0; lane < kTileUnits; ++lane)
          x[i][lane] = Stored::value(from[elements.at[i] + lane]);
    } else {
      for (int lane = run.begin; lane < run.end; ++lane, from += step)
        for (int i = 0; i < count; ++i) x[i][lane] = Stored::value(from[elements.at[i]]);
    }
  });
}

template <typename Stored>
void store_lanes(const FrequencyCoding& coding, const FrequencyLayout& layout,
                 const LaneChunk& chunk_values, std::int64_t tile, int chunk, void* values) {
  const std::int64_t step = coding.map.channel_stride;
  const int count = coefficients_of(coding.block);
  for_each_run(coding, layout, tile, chunk, [&](LaneRun run, const BlockPlace& place, int number) {
    if (!place.exists) return;
    auto* to = static_cast<typename Stored::Word*>(values) + place.element;
    const LaneFloats* x = chunk_values.numbers + number * count;
    if (step == 1 && run.end - run.begin == kTileUnits) {
      for (int i = 0; i < count; ++i) {
        const int row = i / coding.block, column = i % coding.block;
        if (row >= place.rows || column >= place.columns) continue;
        auto* line = to + row * coding.map.row_stride + column * coding.map.column_stride;
        for (int lane = 0; lane < kTileUnits; ++lane)
          line[lane] = Stored::word(storable<Stored>(x[i][lane]));
      }
    } else {
      for (int lane = run.begin; lane < run.end; ++lane, to += step)
        for (int row = 0; row < place.rows; ++row)
          for (int column = 0; column < place.columns; ++column)
            to[row * coding.map.row_stride + column * coding.map.column_stride] =
                Stored::word(storable<Stored>(x[row * coding.block + column][lane]));
    }
  });
}

}  // namespace triaccel::kernels::cpu
