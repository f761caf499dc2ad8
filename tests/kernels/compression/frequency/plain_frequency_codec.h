#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "triaccel/kernels/compression/block_transform.h"
#include "triaccel/kernels/compression/frequency/frequency_code_table.h"
#include "triaccel/kernels/compression/frequency/frequency_codec.h"
#include "triaccel/kernels/compression/frequency/frequency_codec_math.h"
#include "triaccel/kernels/compression/frequency/frequency_codec_memory.h"

// One element after the other, without tables and lanes: the oracle of encode_frequency and
// decode_frequency.
namespace triaccel::kernels::plain {

using cpu::BlockPlace;
using cpu::place_of;

template <int block>
void transform_line(bool forward, float* x, int stride) {
  float line[block];
  for (int i = 0; i < block; ++i) line[i] = x[i * stride];
  (forward ? Transform<block>::forward : Transform<block>::back)(line);
  for (int i = 0; i < block; ++i) x[i * stride] = line[i];
}

template <int block>
void transform_block(bool forward, float* x) {
  const auto scale = [&] {
    for (int row = 0; row < block; ++row)
      for (int column = 0; column < block; ++column)
        x[row * block + column] *= scale_at<block>(row, column);
  };
  if (!forward) scale();
  for (int row = 0; row < block; ++row) transform_line<block>(forward, x + row * block, 1);
  for (int column = 0; column < block; ++column) transform_line<block>(forward, x + column, block);
  if (forward) scale();
}

/// `x` are the block's elements by row and column.
inline void transform_block(int block, bool forward, float* x) {
  if (block == 8) transform_block<8>(forward, x);
  if (block == 7) transform_block<7>(forward, x);
  if (block == 4) transform_block<4>(forward, x);
}

/// A chunk's blocks, each with its elements or coefficients by row and column.
struct Chunk {
  std::vector<float> numbers;
  int block;
  float& at(int number, int row, int column) {
    return numbers[static_cast<std::size_t>((number * block + row) * block + column)];
  }
};

inline Chunk empty_chunk(int block) {
  return {std::vector<float>(static_cast<std::size_t>(blocks_of_chunk(block) * block * block)),
          block};
}

inline void transform_blocks(Chunk& chunk, bool forward) {
  for (int number = 0; number < blocks_of_chunk(chunk.block); ++number)
    transform_block(chunk.block, forward, &chunk.at(number, 0, 0));
}

template <typename Stored>
Chunk coefficients(const FrequencyCoding& coding, const FrequencyLayout& layout, const void* values,
                   std::int64_t unit, int chunk) {
  Chunk result = empty_chunk(coding.block);
  for (int number = 0; number < blocks_of_chunk(coding.block); ++number) {
    const BlockPlace place = place_of(coding.map, layout, coding.block, unit,
                                      chunk * blocks_of_chunk(coding.block) + number);
    const auto* words = static_cast<const typename Stored::Word*>(values) + place.element;
    for (int row = 0; row < coding.block; ++row)
      for (int column = 0; column < coding.block; ++column)
        result.at(number, row, column) =
            Stored::value(words[std::min(row, place.rows - 1) * coding.map.row_stride +
                                std::min(column, place.columns - 1) * coding.map.column_stride]);
  }
  transform_blocks(result, true);
  return result;
}

template <typename Stored>
void store(const FrequencyCoding& coding, const FrequencyLayout& layout, Chunk& chunk_values,
           std::int64_t unit, int chunk, void* values) {
  for (int number = 0; number < blocks_of_chunk(coding.block); ++number) {
    const BlockPlace place = place_of(coding.map, layout, coding.block, unit,
                                      chunk * blocks_of_chunk(coding.block) + number);
    if (!place.exists) continue;
    auto* words = static_cast<typename Stored::Word*>(values) + place.element;
    for (int row = 0; row < place.rows; ++row)
      for (int column = 0; column < place.columns; ++column)
        words[row * coding.map.row_stride + column * coding.map.column_stride] =
            Stored::word(storable<Stored>(chunk_values.at(number, row, column)));
  }
}

/// The extremes of a unit's coefficients; see kExtremes.
struct Extremes {
  float values[kExtremes];
};

inline void widen(Extremes& extremes, Chunk& chunk) {
  for (int number = 0; number < blocks_of_chunk(chunk.block); ++number)
    for (int row = 0; row < chunk.block; ++row)
      for (int column = 0; column < chunk.block; ++column) {
        const float x = chunk.at(number, row, column);
        const int band = band_of(chunk.block, row, column);
        if (band == 0) {
          extremes.values[0] = larger(extremes.values[0], x);
          extremes.values[1] = larger(extremes.values[1], -x);
        } else {
          extremes.values[band + 1] = larger(extremes.values[band + 1], magnitude(x));
        }
      }
}

inline UnitRanges ranges_from(const Extremes& extremes) {
  const MiddleRange first = middle_range(extremes.values[0], extremes.values[1]);
  std::uint32_t codes[kFrequencyBands] = {range_code(first.range)};
  for (int band = 1; band < kFrequencyBands; ++band)
    codes[band] = range_code(extremes.values[band + 1]);
  return unit_ranges(codes, first.middle);
}

/// Where byte `byte` of a lane's bits lies in the codes of its chunk.
inline std::int64_t lane_byte(int chunk_bits, int lane, int byte) {
  const int in_words = chunk_bits / 32 * 4, in_halves = chunk_bits % 32 / 16 * 2;
  if (byte < in_words) return (byte / 4 * kTileUnits + lane) * 4 + byte % 4;
  const std::int64_t halves = std::int64_t{in_words} * kTileUnits;
  if (byte < in_words + in_halves) return halves + 2 * lane + (byte - in_words);
  return halves + in_halves * kTileUnits + lane;
}

/// The offset's bits of code `code` of a chunk.
inline std::uint32_t offset_of(const FrequencyCoding& coding, bool random, std::int64_t unit,
                               int chunk, int code) {
  if (!random) return offset_bits(kHalfOffsets, 0);
  const auto call = static_cast<std::uint64_t>(unit * kUnitChunks + chunk);
  const DitherDraws draws(coding.key);
  const OffsetWords words =
      chunk_offsets(offset_words(draws.words(call, draws.high())), code / kOffsetsOfCall);
  return offset_bits(words.words[code % kOffsetsOfCall / 2], code % 2);
}

/// body(chunk's code number, its coefficient's row, column and bits, number of its block).
template <typename Body>
void for_each_coefficient(const FrequencyCoding& coding, Body body) {
  for (int code = 0; code < codes_of_chunk(coding.block); ++code) {
    const CodedPlace coded = coded_place(coding.block, code);
    body(code, coefficient_at(coding.block, coded.place),
         static_cast<int>(coding.bits[static_cast<std::size_t>(coded.place)]), coded.block);
  }
}

template <typename Byte>
Byte* chunk_codes(const FrequencyLayout& layout, Byte* codes, std::int64_t unit, int chunk) {
  return codes + layout.header_bytes() + layout.tile_offset(unit / kTileUnits) +
         chunk * layout.chunk_bytes();
}

template <typename Stored>
void encode(const FrequencyCoding& coding, const void* values, std::uint8_t* codes,
            std::int32_t* not_finite) {
  const FrequencyLayout layout = frequency_layout(coding.map, coding.block, coding.bits);
  std::memset(codes, 0, static_cast<std::size_t>(layout.bytes()));
  for (std::int64_t unit = 0; unit < layout.tiles * kTileUnits; ++unit) {
    Extremes extremes;
    for (float& extreme : extremes.values) extreme = -INFINITY;
    std::vector<Chunk> chunks;
    for (int chunk = 0; chunk < kUnitChunks; ++chunk) {
      chunks.push_back(coefficients<Stored>(coding, layout, values, unit, chunk));
      widen(extremes, chunks.back());
    }
    const UnitRanges ranges = ranges_from(extremes);
    const std::uint64_t header = header_of(ranges);
    std::memcpy(codes + unit * kUnitHeaderBytes, &header, sizeof header);
    const bool finite = is_finite(ranges);
    if (!finite && unit < layout.units && not_finite != nullptr) ++*not_finite;
    const auto lane = static_cast<int>(unit % kTileUnits);
    for (int chunk = 0; chunk < layout.chunks_of_tile(unit / kTileUnits); ++chunk) {
      std::uint8_t* to = chunk_codes(layout, codes, unit, chunk);
      int position = 0;
      for_each_coefficient(coding, [&](int code, CoefficientPlace at, int bits, int number) {
        const int band = band_of(coding.block, at.row, at.column);
        const float x = chunks[static_cast<std::size_t>(chunk)].at(number, at.row, at.column);
        const std::uint32_t offset =
            offset_of(coding, coding.rounding != Rounding::Nearest, unit, chunk, code);
        const float inside = !finite ? 0.0f : band == 0 ? x - middle_of(ranges) : x;
        const float inverse = !finite ? 0.0f : inverse_width(band_range(ranges, band));
        const float scale = inverse * static_cast<float>((1 << bits) - 1);
        const std::uint32_t drawn =
            code_bits(inside, scale, offset) - kCodeBaseBits + (1u << bits) / 2;
        for (int bit = 0; bit < bits; ++bit, ++position)
          to[lane_byte(layout.chunk_bits, lane, position / 8)] |=
              static_cast<std::uint8_t>((drawn >> bit & 1u) << position % 8);
      });
    }
  }
}

template <typename Stored>
void decode(const FrequencyCoding& coding, const std::uint8_t* codes, void* values) {
  const FrequencyLayout layout = frequency_layout(coding.map, coding.block, coding.bits);
  const float gain = gain_of(coding.block) * gain_of(coding.block);
  for (std::int64_t unit = 0; unit < layout.units; ++unit) {
    std::uint64_t header;
    std::memcpy(&header, codes + unit * kUnitHeaderBytes, sizeof header);
    const UnitRanges ranges = ranges_of(header);
    const auto lane = static_cast<int>(unit % kTileUnits);
    for (int chunk = 0; chunk < layout.chunks_of_tile(unit / kTileUnits); ++chunk) {
      const std::uint8_t* from = chunk_codes(layout, codes, unit, chunk);
      Chunk result = empty_chunk(coding.block);
      int position = 0;
      for_each_coefficient(coding, [&](int code, CoefficientPlace at, int bits, int number) {
        std::uint32_t read = 0;
        for (int bit = 0; bit < bits; ++bit, ++position) {
          const std::uint32_t byte = from[lane_byte(layout.chunk_bits, lane, position / 8)];
          read |= (byte >> position % 8 & 1u) << bit;
        }
        const int band = band_of(coding.block, at.row, at.column);
        const float inverse_levels = bits > 0 ? 1.0f / static_cast<float>((1 << bits) - 1) : 0.0f;
        const std::uint32_t offset =
            offset_of(coding, coding.rounding == Rounding::Dither, unit, chunk, code);
        const float step = band_range(ranges, band) * kWidth / gain * inverse_levels;
        const float bias = 256.0f + static_cast<float>((1 << bits) / 2);
        const float x = decoded(read << 15, offset, step, bias * step);
        result.at(number, at.row, at.column) = band == 0 ? x + middle_of(ranges) / gain : x;
      });
      transform_blocks(result, false);
      store<Stored>(coding, layout, result, unit, chunk, values);
    }
  }
}

inline void encode_frequency(const FrequencyCoding& coding, const void* values, std::uint8_t* codes,
                             std::int32_t* not_finite) {
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    encode<Stored>(coding, values, codes, not_finite);
  });
}

inline void decode_frequency(const FrequencyCoding& coding, const std::uint8_t* codes,
                             void* values) {
  with_stored_type(coding.type,
                   [&]<typename Stored>(Stored) { decode<Stored>(coding, codes, values); });
}

}  // namespace triaccel::kernels::plain
