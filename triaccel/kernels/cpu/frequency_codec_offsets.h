#pragma once

#include <cstdint>

#include "triaccel/kernels/frequency_code_table.h"
#include "triaccel/kernels/frequency_codec_math.h"

namespace triaccel::kernels::cpu {

using LaneWords = std::uint32_t[kTileUnits];

/// The random offsets of one chunk of a tile: those of lane 0 begin with call `first`, those of the
/// next lane kLaneCalls later.
inline constexpr int kLaneCalls = kUnitChunks * kMostCodes / kOffsetsOfCall;
struct LaneOffsets {
  DitherDraws draws;
  std::uint64_t high = 0, first = 0;
  bool random = true;  // else all are 1/2
};

/// OffsetWords of every lane.
struct alignas(64) OffsetLanes {
  LaneWords words[8];
};

/// Those of call `number` of a chunk, for sixteen codes.
void draw_offsets(const LaneOffsets& offsets, int number, OffsetLanes& drawn);

}  // namespace triaccel::kernels::cpu
