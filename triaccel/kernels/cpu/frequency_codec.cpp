#include "triaccel/kernels/frequency_codec.h"

#include <cmath>
#include <cstring>
#include <memory>

#include "triaccel/kernels/cpu/frequency_codec_lanes.h"
#include "triaccel/kernels/cpu/frequency_codec_memory.h"

namespace triaccel::kernels::cpu {
namespace {

LaneOffsets offsets_of(const FrequencyCoding& coding, bool random) {
  const std::int64_t step = coding.key.step == nullptr ? 0 : *coding.key.step;
  return {random_keys<kOffsetRounds>(coding.key.seed),
          static_cast<std::uint64_t>(step) << 32 | coding.key.tensor, 0, random};
}

/// Those of one chunk of a tile.
LaneOffsets offsets_at(LaneOffsets offsets, std::int64_t tile, int chunk) {
  offsets.first =
      static_cast<std::uint64_t>(tile * kTileUnits * kLaneCalls + chunk * kLaneCalls / kUnitChunks);
  return offsets;
}

struct Tile {
  LaneChunk chunks[kUnitChunks];
  LaneExtremes extremes;
  LaneScales scales;
};

/// Writes the headers of a tile; returns how many of its units are not finite.
int close_ranges(const FrequencyLayout& layout, std::int64_t number, Tile& tile,
                 std::uint8_t* codes) {
  int not_finite = 0;
  for (int lane = 0; lane < kTileUnits; ++lane) {
    const UnitRanges ranges = ranges_from(tile.extremes, lane);
    const std::uint64_t header = header_of(ranges);
    const std::int64_t unit = number * kTileUnits + lane;
    std::memcpy(codes + unit * kUnitHeaderBytes, &header, sizeof header);
    for (int band = 0; band < kFrequencyBands; ++band)
      tile.scales.bands[band][lane] = inverse_width(band_range(ranges, band));
    tile.scales.middle[lane] = middle_of(ranges);
    if (is_finite(ranges)) continue;
    not_finite += unit < layout.units ? 1 : 0;
    tile.scales.middle[lane] = 0;
    for (LaneFloats& scales : tile.scales.bands) scales[lane] = 0;
    for (LaneChunk& chunk : tile.chunks)
      for (LaneFloats& numbers : chunk.numbers) numbers[lane] = 0;
  }
  return not_finite;
}

template <typename Stored>
void encode(const FrequencyCoding& coding, const void* values, std::uint8_t* codes,
            std::int32_t* not_finite) {
  const FrequencyLayout layout = frequency_layout(coding.map, coding.block, coding.bits);
  const EncodeTable table = encode_table(coding.block, coding.bits);
  const LaneOffsets offsets = offsets_of(coding, coding.rounding != Rounding::Nearest);
  int lost = 0;
#pragma omp parallel if (layout.tiles > 1) reduction(+ : lost)
  {
    const auto tile = std::make_unique<Tile>();
#pragma omp for schedule(static)
    for (std::int64_t number = 0; number < layout.tiles; ++number) {
      for (LaneFloats& extreme : tile->extremes.values)
        for (float& lane : extreme) lane = -INFINITY;
      for (int chunk = 0; chunk < kUnitChunks; ++chunk) {
        load_lanes<Stored>(coding, layout, values, number, chunk, tile->chunks[chunk]);
        transform_lanes(tile->chunks[chunk], coding.block);
        widen_lanes(tile->chunks[chunk], coding.block, tile->extremes);
      }
      lost += close_ranges(layout, number, *tile, codes);
      std::uint8_t* to = codes + layout.header_bytes() + layout.tile_offset(number);
      for (int chunk = 0; chunk < layout.chunks_of_tile(number); ++chunk)
        encode_lanes(tile->chunks[chunk], coding.block, tile->scales,
                     offsets_at(offsets, number, chunk), table, to + chunk * layout.chunk_bytes());
    }
  }
  if (not_finite != nullptr) *not_finite += lost;
}

void read_scales(const FrequencyCoding& coding, const std::uint8_t* headers, LaneScales& scales) {
  const float gain = 1.0f / (gain_of(coding.block) * gain_of(coding.block));
  for (int lane = 0; lane < kTileUnits; ++lane) {
    std::uint64_t header;
    std::memcpy(&header, headers + lane * kUnitHeaderBytes, sizeof header);
    const UnitRanges ranges = ranges_of(header);
    for (int band = 0; band < kFrequencyBands; ++band)
      scales.bands[band][lane] = band_range(ranges, band) * kWidth * gain;
    scales.middle[lane] = middle_of(ranges) * gain;
  }
}

template <typename Stored>
void decode(const FrequencyCoding& coding, const std::uint8_t* codes, void* values) {
  const FrequencyLayout layout = frequency_layout(coding.map, coding.block, coding.bits);
  const DecodeTable table = decode_table(coding.block, coding.bits);
  const LaneOffsets offsets = offsets_of(coding, coding.rounding == Rounding::Dither);
#pragma omp parallel for schedule(static) if (layout.tiles > 1)
  for (std::int64_t number = 0; number < layout.tiles; ++number) {
    LaneScales scales;
    LaneChunk chunk_values;
    read_scales(coding, codes + number * kTileUnits * kUnitHeaderBytes, scales);
    const std::uint8_t* from = codes + layout.header_bytes() + layout.tile_offset(number);
    for (int chunk = 0; chunk < layout.chunks_of_tile(number); ++chunk) {
      decode_lanes(chunk_values, coding.block, scales, offsets_at(offsets, number, chunk), table,
                   from + chunk * layout.chunk_bytes());
      transform_lanes_back(chunk_values, coding.block);
      store_lanes<Stored>(coding, layout, chunk_values, number, chunk, values);
    }
  }
}

}  // namespace

void encode_frequency(const FrequencyCoding& coding, const void* values, std::uint8_t* codes,
                      std::int32_t* not_finite) {
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    encode<Stored>(coding, values, codes, not_finite);
  });
}

void decode_frequency(const FrequencyCoding& coding, const std::uint8_t* codes, void* values) {
  with_stored_type(coding.type,
                   [&]<typename Stored>(Stored) { decode<Stored>(coding, codes, values); });
}

}  // namespace triaccel::kernels::cpu
