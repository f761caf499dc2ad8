#pragma once

#include <cstdint>

#include "triaccel/core/frequency_bands.h"
#include "triaccel/kernels/compression/frequency/frequency_code_table.h"
#include "triaccel/kernels/compression/frequency/frequency_codec_math.h"
#include "triaccel/kernels/compression/frequency/frequency_codec_offsets.h"

// The work on one chunk of a tile, for its 32 lanes side by side.
namespace triaccel::kernels::cpu {

using LaneFloats = float[kTileUnits];

/// The elements or coefficients of a chunk by block, row and column.
struct alignas(64) LaneChunk {
  LaneFloats numbers[kMaxCodes];
};

/// By band; inverse_width while coding, width over the transform's gain while decoding.
struct alignas(64) LaneScales {
  LaneFloats bands[kFrequencyBands];
  LaneFloats middle;
};

struct alignas(64) LaneExtremes {
  LaneFloats values[kExtremes];
};

void transform_lanes(LaneChunk& chunk, int block);
void transform_lanes_back(LaneChunk& chunk, int block);

/// Widens `extremes` by a chunk's coefficients.
void widen_lanes(const LaneChunk& chunk, int block, LaneExtremes& extremes);

/// The ranges of one lane's unit.
UnitRanges ranges_from(const LaneExtremes& extremes, int lane);

/// Takes the middle off the coefficients of band 0 and writes the chunk's codes.
void encode_lanes(LaneChunk& chunk, int block, const LaneScales& scales, const LaneOffsets& offsets,
                  const EncodeTable& table, std::uint8_t* codes);
void decode_lanes(LaneChunk& chunk, int block, const LaneScales& scales, const LaneOffsets& offsets,
                  const DecodeTable& table, const std::uint8_t* codes);

}  // namespace triaccel::kernels::cpu
