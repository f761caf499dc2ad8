#pragma once

#include <cstdint>

#include "triaccel/core/frequency_bands.h"
#include "triaccel/kernels/compression/frequency/frequency_code_table.h"
#include "triaccel/kernels/compression/frequency/frequency_codec_math.h"

// The work on one chunk of a tile, for its 32 lanes side by side.
namespace triaccel::kernels::cpu {

using LaneWords = std::uint32_t[kTileUnits];

/// The random offsets of one chunk of a tile: those of lane 0 come from call `first`, those of the
/// next lane from the one kUnitChunks later.
struct LaneOffsets {
  DitherDraws draws;
  std::uint64_t high = 0, first = 0;
  bool random = true;  // else all are 1/2
};

/// OffsetWords of every lane.
struct alignas(64) OffsetLanes {
  LaneWords words[8];
};

/// Those of a chunk, sixteen codes at a time: chunk_offsets of every lane.
class ChunkOffsets {
 public:
  explicit ChunkOffsets(const LaneOffsets& offsets);

  /// Turns to the codes from 16 * `sixteenth` on.
  void turn_to(int sixteenth);

  /// Two words with the offsets of a quad among them.
  const LaneWords* of_quad(int quad) const { return current_->words + 2 * (quad % 4); }

 private:
  bool random_;
  OffsetLanes first_, later_;
  const OffsetLanes* current_ = &first_;
};

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
