#include "triaccel/kernels/compression/frequency/frequency_codec.h"

#include <cmath>
#include <cstring>
#include <memory>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/compression/codec_map_math.h"
#include "triaccel/kernels/compression/frequency/frequency_codec_lanes.h"
#include "triaccel/kernels/compression/frequency/frequency_codec_memory.h"

namespace triaccel::kernels::cpu {
namespace {

LaneOffsets offsets_of(const FrequencyCoding& coding, bool random) {
  const DitherDraws draws(coding.key);
  return {draws, draws.high(), 0, random};
}

/// Those of one chunk of a tile.
LaneOffsets offsets_at(LaneOffsets offsets, std::int64_t tile, int chunk) {
  offsets.first = static_cast<std::uint64_t>(tile * kTileUnits * kUnitChunks + chunk);
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

/// The norms of a tile's lanes, each of one channel.
struct alignas(64) LaneNorms {
  LaneFloats mean, scale, bias;
};

LaneNorms norms_of(const FrequencyCoding& coding, const FrequencyLayout& layout,
                   const CodecMap& map, std::int64_t tile) {
  LaneNorms norms;
  for (int lane = 0; lane < kTileUnits; ++lane) {
    const std::int64_t unit = std::min(tile * kTileUnits + lane, layout.units - 1);
    const NormCoefficients norm = codec_norm(map, unit % coding.map.channels);
    norms.mean[lane] = norm.mean, norms.scale[lane] = norm.scale, norms.bias[lane] = norm.bias;
  }
  return norms;
}

TRIACCEL_WIDE_VECTORS
void map_lanes(LaneChunk& chunk, int block, const LaneNorms& norms, Activation activation) {
  for (int number = 0; number < codes_of_chunk(block); ++number) {
    float* __restrict x = chunk.numbers[number];
#pragma omp simd
    for (int lane = 0; lane < kTileUnits; ++lane)
      x[lane] = normalised(x[lane], norms.mean[lane], norms.scale[lane], norms.bias[lane]);
    if (activation != Activation::Silu) continue;
#pragma omp simd
    for (int lane = 0; lane < kTileUnits; ++lane) x[lane] = silu(x[lane]);
  }
}

/// Closes what the gate has no bit for, and multiplies by the images' scales.
void gate_lanes(const FrequencyCoding& coding, const FrequencyLayout& layout, const CodecMap& map,
                std::int64_t tile, int number, LaneChunk& chunk) {
  const int count = coefficients_of(coding.block);
  for_each_run(coding, layout, tile, number, [&](LaneRun run, const BlockPlace& place, int of) {
    const BlockElements elements = elements_of(coding, place);
    const std::int64_t channel =
        std::min(tile * kTileUnits + run.begin, layout.units - 1) % coding.map.channels;
    for (int lane = run.begin; lane < run.end; ++lane) {
      const std::int64_t first = place.element + (lane - run.begin) * coding.map.channel_stride;
      const float scale =
          map.scales == nullptr
              ? 1.0f
              : map.scales[place.image * coding.map.channels + channel + lane - run.begin];
      for (int i = 0; i < count; ++i) {
        float& x = chunk.numbers[of * count + i][lane];
        const bool opens = map.gate == nullptr || gate_opens(map.gate, first + elements.at[i]);
        x = opens ? x * scale : 0.0f;
      }
    }
  });
}

template <typename Stored>
void decode(const FrequencyCoding& coding, const std::uint8_t* codes, void* values,
            const CodecMap& map) {
  const FrequencyLayout layout = frequency_layout(coding.map, coding.block, coding.bits);
  const DecodeTable table = decode_table(coding.block, coding.bits);
  const LaneOffsets offsets = offsets_of(coding, coding.rounding == Rounding::Dither);
#pragma omp parallel for schedule(static) if (layout.tiles > 1)
  for (std::int64_t number = 0; number < layout.tiles; ++number) {
    LaneScales scales;
    LaneChunk chunk_values;
    const LaneNorms norms = norms_of(coding, layout, map, number);
    read_scales(coding, codes + number * kTileUnits * kUnitHeaderBytes, scales);
    const std::uint8_t* from = codes + layout.header_bytes() + layout.tile_offset(number);
    for (int chunk = 0; chunk < layout.chunks_of_tile(number); ++chunk) {
      decode_lanes(chunk_values, coding.block, scales, offsets_at(offsets, number, chunk), table,
                   from + chunk * layout.chunk_bytes());
      transform_lanes_back(chunk_values, coding.block);
      if (map.changes()) map_lanes(chunk_values, coding.block, norms, map.activation);
      if (map.gate != nullptr || map.scales != nullptr)
        gate_lanes(coding, layout, map, number, chunk, chunk_values);
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

void decode_frequency(const FrequencyCoding& coding, const std::uint8_t* codes, void* values,
                      const CodecMap& map) {
  with_stored_type(coding.type,
                   [&]<typename Stored>(Stored) { decode<Stored>(coding, codes, values, map); });
}

}  // namespace triaccel::kernels::cpu
