#include <cmath>
#include <memory>

#include "triaccel/kernels/compression/frequency/frequency_codec.h"
#include "triaccel/kernels/compression/frequency/frequency_codec_lanes.h"
#include "triaccel/kernels/compression/frequency/frequency_codec_memory.h"
#include "triaccel/kernels/compression/groups/group_codec_math.h"

namespace triaccel::kernels::cpu {
namespace {

/// Sums over units or groups, and what they are sums of.
struct BandSums {
  double squares = 0, squared_ranges = 0;
  std::int64_t coefficients = 0, ranges = 0;
};

BandStatistics mean_of(const BandSums& sums) {
  if (sums.ranges == 0) return {};
  return {.mean_square = sums.squares / static_cast<double>(sums.coefficients),
          .squared_range = sums.squared_ranges / static_cast<double>(sums.ranges)};
}

struct UnitSums {
  double squares[kFrequencyBands] = {};
};

/// Squares of a lane's coefficients in the blocks that exist.
void add_squares(const FrequencyCoding& coding, const FrequencyLayout& layout, std::int64_t unit,
                 int chunk, const LaneChunk& numbers, UnitSums& sums, int& blocks) {
  const int count = coefficients_of(coding.block), in_chunk = blocks_of_chunk(coding.block);
  for (int number = 0; number < in_chunk; ++number) {
    if (!place_of(coding.map, layout, coding.block, unit, chunk * in_chunk + number).exists)
      continue;
    ++blocks;
    for (int i = 0; i < count; ++i) {
      const double x = numbers.numbers[number * count + i][unit % kTileUnits];
      sums.squares[band_of(coding.block, i / coding.block, i % coding.block)] += x * x;
    }
  }
}

template <typename Stored>
void add_tile(const FrequencyCoding& coding, const FrequencyLayout& layout, const void* values,
              std::int64_t tile, LaneChunk (&chunks)[kUnitChunks],
              BandSums (&sums)[kFrequencyBands]) {
  LaneExtremes extremes;
  for (LaneFloats& extreme : extremes.values)
    for (float& lane : extreme) lane = -INFINITY;
  for (int chunk = 0; chunk < kUnitChunks; ++chunk) {
    load_lanes<Stored>(coding, layout, values, tile, chunk, chunks[chunk]);
    transform_lanes(chunks[chunk], coding.block);
    widen_lanes(chunks[chunk], coding.block, extremes);
  }
  const double gain = gain_of(coding.block);
  for (int lane = 0; lane < kTileUnits; ++lane) {
    const std::int64_t unit = tile * kTileUnits + lane;
    const UnitRanges ranges = ranges_from(extremes, lane);
    if (unit >= layout.units || !is_finite(ranges)) continue;
    UnitSums unit_sums;
    int blocks = 0;
    for (int chunk = 0; chunk < kUnitChunks; ++chunk)
      add_squares(coding, layout, unit, chunk, chunks[chunk], unit_sums, blocks);
    for (int band = 0; band < kFrequencyBands; ++band) {
      const double width = 2.0 * band_range(ranges, band) / gain;
      sums[band].squares += unit_sums.squares[band] / (gain * gain);
      sums[band].squared_ranges += width * width;
      sums[band].coefficients += std::int64_t{blocks} * band_size(coding.block, band);
      ++sums[band].ranges;
    }
  }
}

/// body(element's place in memory) for each one by image, channel, row and column.
template <typename Body>
void for_each_element(const BlockMap& map, Body body) {
  for (std::int64_t image = 0; image < map.images; ++image)
    for (std::int64_t channel = 0; channel < map.channels; ++channel)
      for (std::int64_t row = 0; row < map.rows; ++row)
        for (std::int64_t column = 0; column < map.columns; ++column)
          body(map.offset + image * map.image_stride + channel * map.channel_stride +
               row * map.row_stride + column * map.column_stride);
}

/// One group of group_codec.h.
struct Group {
  float largest = 0, negated_least = 0;
  double squares = 0;
  std::int64_t size = 0;

  void add(float value) {
    largest = size == 0 ? value : larger(largest, value);
    negated_least = size == 0 ? -value : larger(negated_least, -value);
    squares += double{value} * value;
    ++size;
  }

  void add_to(BandSums& sums) const {
    const GroupRange range = group_range(-negated_least, largest);
    if (size == 0 || range.low != range.low) return;
    sums.squares += squares;
    sums.coefficients += size;
    sums.squared_ranges += double{range.range} * range.range;
    ++sums.ranges;
  }
};

template <typename Stored>
void add_groups(const BlockMap& map, const void* values, BandSums& sums) {
  Group group;
  for_each_element(map, [&](std::int64_t element) {
    group.add(Stored::value(static_cast<const typename Stored::Word*>(values)[element]));
    if (group.size < kGroupElements) return;
    group.add_to(sums);
    group = {};
  });
  group.add_to(sums);
}

template <typename Stored>
void add_units(const BlockMap& map, FloatType type, const void* values, int block,
               BandSums (&sums)[kFrequencyBands]) {
  const FrequencyCoding coding = {.map = map, .type = type, .block = block, .bits = {8}};
  const FrequencyLayout layout = frequency_layout(map, block, coding.bits);
  struct Chunks {
    LaneChunk chunks[kUnitChunks];
  };
  const auto chunks = std::make_unique<Chunks>();
  for (std::int64_t tile = 0; tile < layout.tiles; ++tile)
    add_tile<Stored>(coding, layout, values, tile, chunks->chunks, sums);
}

}  // namespace

TransformStatistics transform_statistics(const BlockMap& map, FloatType type, const void* values,
                                         int block) {
  BandSums sums[kFrequencyBands];
  with_stored_type(type, [&]<typename Stored>(Stored) {
    if (block == 0)
      add_groups<Stored>(map, values, sums[0]);
    else
      add_units<Stored>(map, type, values, block, sums);
  });
  TransformStatistics statistics = {.measured = sums[0].ranges > 0};
  for (std::size_t band = 0; band < kFrequencyBands; ++band)
    statistics.bands[band] = mean_of(sums[band]);
  return statistics;
}

}  // namespace triaccel::kernels::cpu
