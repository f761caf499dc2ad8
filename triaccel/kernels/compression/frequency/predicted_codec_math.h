#pragma once

#include <cstdint>

#include "triaccel/core/predicted_blocks.h"
#include "triaccel/kernels/compression/frequency/frequency_codec_math.h"
#include "triaccel/kernels/compression/frequency/predicted_code_table.h"

// One block of Note [Predicted blocks], from coefficients to bits and back. Both back ends call
// this, so they cannot drift apart. Coefficients of a tile lie by [place][block], so that threads
// that take a block each do not get into each other's way.
namespace triaccel::kernels {

inline constexpr int kGainOne = 128;
inline constexpr int kMaxUnits = kPredictedTile / kUnitChunks;  // of a tile

/// A unit's ranges as blocks use them.
struct UnitScale {
  float range[kFrequencyBands];
  float inverse[kFrequencyBands];
  float middle;
  std::int32_t finite;
};

TRIACCEL_HOST_DEVICE inline UnitScale unit_scale(std::uint64_t header) {
  const UnitRanges ranges = ranges_of(header);
  UnitScale scale;
  scale.finite = is_finite(ranges) ? 1 : 0;
  for (int band = 0; band < kFrequencyBands; ++band) {
    scale.range[band] = band_range(ranges, band);
    scale.inverse[band] = scale.finite != 0 ? inverse_width(scale.range[band]) : 0.0f;
  }
  scale.middle = middle_of(ranges);
  return scale;
}

/// Takes a coefficient of `band` into a unit's extremes, which begin at -infinity.
TRIACCEL_HOST_DEVICE inline void add_extreme(int band, float x, float (&extremes)[kExtremes]) {
  if (band == 0) {
    extremes[0] = larger(extremes[0], x);
    extremes[1] = larger(extremes[1], -x);
  } else {
    extremes[band + 1] = larger(extremes[band + 1], magnitude(x));
  }
}

TRIACCEL_HOST_DEVICE inline std::uint64_t unit_header(const float (&extremes)[kExtremes]) {
  const MiddleRange first = middle_range(extremes[0], extremes[1]);
  std::uint32_t codes[kFrequencyBands] = {range_code(first.range)};
  for (int band = 1; band < kFrequencyBands; ++band) codes[band] = range_code(extremes[band + 1]);
  return header_of(unit_ranges(codes, first.middle));
}

/// The signs of random sums of the lowest frequencies, each over its band's range, so that all
/// count alike; the first coefficient is skipped. `x` is a block's column.
TRIACCEL_HOST_DEVICE inline std::uint32_t signature(const PredictedTables& tables, const float* x,
                                                    const UnitScale& scale) {
  float sums[16] = {};
  for (int i = 0; i < tables.hashed; ++i) {
    const int place = tables.hashed_places[i];
    const float value = x[place * kPredictedTile] * scale.inverse[tables.band[place]];
    const std::uint32_t signs = tables.signs[i];
    for (int plane = 0; plane < 16; ++plane)
      sums[plane] += (signs >> plane & 1u) != 0 ? value : -value;
  }
  std::uint32_t key = 0;
  for (int plane = 0; plane < 16; ++plane) key |= (sums[plane] > 0 ? 1u : 0u) << plane;
  return key;
}

/// In place of a signature, for a block that nothing is to be predicted from: like no other.
TRIACCEL_HOST_DEVICE inline std::uint32_t no_signature(int block) {
  return 0x10000u | static_cast<std::uint32_t>(block);
}

/// How a block is predicted; not at all where `kind` is 0.
struct Prediction {
  std::int32_t kind = 0;
  std::int32_t from = 0;  // block of the tile
  std::int32_t gain = 0;  // in 128ths

  TRIACCEL_HOST_DEVICE float factor() const { return static_cast<float>(gain) * (1.0f / kGainOne); }
};

/// The factor of `r` that leaves the least of `x`, over the ranges of x; 0: none does.
TRIACCEL_HOST_DEVICE inline std::int32_t best_gain(const PredictedTables& tables, const float* x,
                                                   const float* r, const UnitScale& scale) {
  float both = 0, own = 0;
  for (int place = 1; place < tables.coefficients; ++place) {
    if (tables.bits[place] == 0) continue;
    const float inverse = scale.inverse[tables.band[place]];
    const float theirs = r[place * kPredictedTile] * inverse;
    both = fused(x[place * kPredictedTile] * inverse, theirs, both);
    own = fused(theirs, theirs, own);
  }
  const float gain = fused(both / own, static_cast<float>(kGainOne), 0.5f);
  if (!(gain >= 1.0f)) return 0;
  return gain < 256.0f ? static_cast<std::int32_t>(gain) : 255;
}

/// The kind that saves most of those whose codes reach every difference at the levels of `range`,
/// whatever the offsets of `r`.
TRIACCEL_HOST_DEVICE inline std::int32_t best_kind(const PredictedTables& tables, int range,
                                                   const float* x, const float* r,
                                                   const UnitScale& scale,
                                                   const UnitScale& their_scale,
                                                   std::int32_t gain) {
  const float factor = Prediction{.gain = gain}.factor();
  std::int32_t best = kPredictedKinds - 1;
  for (int place = 1; place < tables.coefficients && best > 0; ++place) {
    const int bits = tables.bits[place], band = tables.band[place];
    if (bits == 0) continue;
    const float difference =
        magnitude(fused(-factor, r[place * kPredictedTile], x[place * kPredictedTile]));
    const float needed =
        fused(factor, their_scale.range[band] * tables.error[range][bits], difference);
    while (best > 0 && !(needed <= scale.range[band] * tables.reach[range][best][bits])) --best;
  }
  while (best > 0 && !tables.pays[range][best]) --best;
  return best;
}

/// The finest level of `range` at which so many blocks of each kind fit; past the last: none.
TRIACCEL_HOST_DEVICE inline int fitting_level(const PredictedTables& tables, int range,
                                              const std::int32_t (&blocks)[kPredictedKinds],
                                              std::int32_t room) {
  int level = first_level(range);
  for (; level <= last_level(range); ++level) {
    std::int32_t sum = 0;
    for (int kind = 0; kind < kPredictedKinds; ++kind)
      sum += blocks[kind] * tables.block_bits[level - kFinestLevel][kind];
    if (sum <= room) break;
  }
  return level;
}

/// What so many blocks of each kind save at the plan's bits.
TRIACCEL_HOST_DEVICE inline std::int32_t bits_saved(const PredictedTables& tables,
                                                    const std::int32_t (&blocks)[kPredictedKinds]) {
  const auto& taken = tables.block_bits[-kFinestLevel];
  std::int32_t sum = 0;
  for (int kind = 1; kind < kPredictedKinds; ++kind) sum += blocks[kind] * (taken[0] - taken[kind]);
  return sum;
}

TRIACCEL_HOST_DEVICE inline std::int32_t kind_at(const std::uint32_t* kinds, int block) {
  return static_cast<std::int32_t>(kinds[block / 16] >> block % 16 * 2 & 3u);
}

/// Fills words from a bit on; `add(word, bits)` joins bits to a word that others fill too.
template <typename Add>
struct BitWriter {
  Add add;
  std::int32_t word, filled;
  std::uint64_t filling = 0;

  TRIACCEL_HOST_DEVICE BitWriter(std::int32_t begin, Add joins)
      : add(joins), word(begin / 32), filled(begin % 32) {}
  TRIACCEL_HOST_DEVICE void write(std::uint32_t value, int bits) {
    filling |= std::uint64_t{value} << filled;
    filled += bits;
    if (filled < 32) return;
    add(word++, static_cast<std::uint32_t>(filling));
    filling >>= 32;
    filled -= 32;
  }
  TRIACCEL_HOST_DEVICE void finish() {
    if (filled > 0) add(word, static_cast<std::uint32_t>(filling));
  }
};

struct BitReader {
  const std::uint32_t* words;
  std::int32_t left;
  std::uint64_t held;

  TRIACCEL_HOST_DEVICE BitReader(const std::uint32_t* from, std::int32_t begin)
      : words(from + begin / 32), left(0), held(0) {
    if (begin % 32 == 0) return;
    held = *words++ >> begin % 32;
    left = 32 - begin % 32;
  }
  TRIACCEL_HOST_DEVICE std::uint32_t read(int bits) {
    if (left < bits) {
      held |= std::uint64_t{*words++} << left;
      left += 32;
    }
    const auto value = static_cast<std::uint32_t>(held) & ((1u << bits) - 1);
    held >>= bits;
    left -= bits;
    return value;
  }
};

/// One block of a tile, as codes and decoding see it.
struct CodedBlock {
  Prediction prediction = {};
  std::int32_t level = 0;
  std::uint64_t call = 0;  // of its random offsets
};

/// body(place, its random offset) for the coefficients of a block.
template <typename Body>
TRIACCEL_HOST_DEVICE inline void for_each_offset(const PredictedTables& tables,
                                                 const DitherDraws& draws, std::uint64_t high,
                                                 std::uint64_t call, Body body) {
  const OffsetWords first = offset_words(draws.words(call, high));
  for (int begin = 0; begin < tables.coefficients; begin += kOffsetsOfCall) {
    const OffsetWords words = chunk_offsets(first, begin / kOffsetsOfCall);
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int i = 0; i < kOffsetsOfCall; ++i)
      if (begin + i < tables.coefficients) body(begin + i, offset_bits(words.words[i / 2], i % 2));
  }
}

/// The coefficient that a code of `held` bits stands for, given `leveled` for the step.
TRIACCEL_HOST_DEVICE inline float decoded_coefficient(const PredictedTables& tables,
                                                      const UnitScale& scale,
                                                      const CodedBlock& block, int place,
                                                      int leveled, int held, std::uint32_t code,
                                                      std::uint32_t offset, const float* r) {
  const float step = scale.range[tables.band[place]] * kWidth * tables.inverse_levels[leveled];
  const float bias = (256.0f + static_cast<float>((1 << held) / 2)) * step;
  const float value = decoded(code << 15, offset, step, bias);
  if (place == 0) return value + scale.middle;
  if (block.prediction.kind == 0) return value;
  return fused(block.prediction.factor(), r[place * kPredictedTile], value);
}

/// Codes a block whose coefficients are the column `x`, which becomes what its codes decode to; `r`
/// is the column that it is predicted from, decoded.
template <typename Writer>
TRIACCEL_HOST_DEVICE inline void write_block(const PredictedTables& tables,
                                             const DitherDraws& draws, std::uint64_t high,
                                             const CodedBlock& block, const UnitScale& scale,
                                             float* x, const float* r, Writer& writer) {
  const Prediction& prediction = block.prediction;
  if (prediction.kind > 0) {
    writer.write(static_cast<std::uint32_t>(prediction.from), 8);
    writer.write(static_cast<std::uint32_t>(prediction.gain), 8);
  }
  for_each_offset(tables, draws, high, block.call, [&](int place, std::uint32_t offset) {
    float& value = x[place * kPredictedTile];
    const int leveled = leveled_bits(tables.bits[place], place, tables.coefficients, block.level);
    if (leveled == 0) {
      value = 0.0f;
      return;
    }
    const int held = held_bits(leveled, place, prediction.kind);
    float inside = value;
    if (place == 0)
      inside -= scale.middle;
    else if (prediction.kind > 0)
      inside = fused(-prediction.factor(), r[place * kPredictedTile], inside);
    const float inverse = scale.inverse[tables.band[place]] * tables.levels_less_one[leveled];
    const std::uint32_t code = (code_bits(scale.finite != 0 ? inside : 0.0f, inverse, offset) -
                                kCodeBaseBits + (1u << held) / 2) &
                               ((1u << held) - 1);
    writer.write(code, held);
    value = decoded_coefficient(tables, scale, block, place, leveled, held, code, offset, r);
  });
  writer.finish();
}

TRIACCEL_HOST_DEVICE inline void read_prediction(BitReader& reader, Prediction& prediction) {
  if (prediction.kind == 0) return;
  prediction.from = static_cast<std::int32_t>(reader.read(8));
  prediction.gain = static_cast<std::int32_t>(reader.read(8));
}

/// Decodes a block to the column `x`; its prediction has been read.
TRIACCEL_HOST_DEVICE inline void read_block(const PredictedTables& tables, const DitherDraws& draws,
                                            std::uint64_t high, const CodedBlock& block,
                                            const UnitScale& scale, BitReader& reader, float* x,
                                            const float* r) {
  for_each_offset(tables, draws, high, block.call, [&](int place, std::uint32_t offset) {
    const int leveled = leveled_bits(tables.bits[place], place, tables.coefficients, block.level);
    const int held = held_bits(leveled, place, block.prediction.kind);
    float& value = x[place * kPredictedTile];
    value = leveled == 0 ? 0.0f
                         : decoded_coefficient(tables, scale, block, place, leveled, held,
                                               reader.read(held), offset, r);
  });
}

TRIACCEL_HOST_DEVICE inline std::uint64_t call_of(std::int64_t tile, int block) {
  return static_cast<std::uint64_t>(tile * kPredictedTile + block);
}

}  // namespace triaccel::kernels
