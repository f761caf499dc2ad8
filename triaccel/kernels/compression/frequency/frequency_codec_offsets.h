#pragma once

#include <cstdint>

#include "triaccel/kernels/compression/frequency/frequency_code_table.h"
#include "triaccel/kernels/compression/frequency/frequency_codec_math.h"

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

}  // namespace triaccel::kernels::cpu
