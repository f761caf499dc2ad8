#include "triaccel/kernels/compression/frequency/frequency_codec_lanes.h"

#include <array>
#include <bit>
#include <cstring>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/compression/block_transform.h"

namespace triaccel::kernels::cpu {
namespace {

static_assert(std::endian::native == std::endian::little, "lanes are copied as they lie");

/// Where the coefficients of a chunk's codes stand in it, and their bands. Codes that only fill the
/// last quad have bits nowhere.
struct CodeOrder {
  std::array<std::uint8_t, kMaxCodes> number = {};
  std::array<std::uint8_t, kMaxCodes> band = {};
  std::array<std::uint8_t, kMaxCodes> band_of_number = {};
};

constexpr CodeOrder code_order(int block) {
  CodeOrder order = {};
  for (int code = 0; code < codes_of_chunk(block); ++code) {
    const CodedPlace coded = coded_place(block, code);
    const CoefficientPlace at = coefficient_at(block, coded.place);
    const auto i = static_cast<std::size_t>(code);
    order.number[i] = static_cast<std::uint8_t>((coded.block * block + at.row) * block + at.column);
    order.band[i] = static_cast<std::uint8_t>(band_of(block, at.row, at.column));
    order.band_of_number[order.number[i]] = order.band[i];
  }
  return order;
}

constexpr CodeOrder kOrder8 = code_order(8), kOrder7 = code_order(7), kOrder4 = code_order(4);

const CodeOrder& order_of(int block) {
  return block == 8 ? kOrder8 : block == 7 ? kOrder7 : kOrder4;
}

struct alignas(64) Quad {
  LaneWords words;
};

/// Scale (levels - 1) / width and place value of a quad's codes.
struct QuadFactors {
  float levels_less_one[4];
  std::uint32_t value[4];
};

QuadFactors factors_of(const EncodeTable& table, int quad) {
  QuadFactors factors;
  for (std::uint32_t i = 0, value = 1; i < 4; ++i, value *= table.quads[quad].factor)
    factors.levels_less_one[i] = table.quads[quad].levels_less_one, factors.value[i] = value;
  for (int i = 0; quad == 0 && i < 4; ++i)
    factors.levels_less_one[i] = table.first_levels_less_one[i],
    factors.value[i] = table.first_values[i];
  return factors;
}

/// The codes of four coefficients in one word per lane. `halves`: two words of random bits.
TRIACCEL_WIDE_VECTORS
void encode_quad(const LaneFloats* const (&numbers)[4], const LaneFloats* const (&inverse)[4],
                 const LaneWords* halves, const QuadFactors& factors, std::uint32_t rest,
                 Quad& result) {
  const QuadFactors f = factors;
  const float *x0 = *numbers[0], *x1 = *numbers[1], *x2 = *numbers[2], *x3 = *numbers[3];
  const float *r0 = *inverse[0], *r1 = *inverse[1], *r2 = *inverse[2], *r3 = *inverse[3];
  const std::uint32_t *low = halves[0], *high = halves[1];
#pragma omp simd
  for (int lane = 0; lane < kTileUnits; ++lane) {
    const std::uint32_t c0 =
        code_bits(x0[lane], r0[lane] * f.levels_less_one[0], offset_bits(low[lane], 0));
    const std::uint32_t c1 =
        code_bits(x1[lane], r1[lane] * f.levels_less_one[1], offset_bits(low[lane], 1));
    const std::uint32_t c2 =
        code_bits(x2[lane], r2[lane] * f.levels_less_one[2], offset_bits(high[lane], 0));
    const std::uint32_t c3 =
        code_bits(x3[lane], r3[lane] * f.levels_less_one[3], offset_bits(high[lane], 1));
    const std::uint32_t sum = c0 * f.value[0] + c1 * f.value[1] + c2 * f.value[2] + c3 * f.value[3];
    result.words[lane] = sum + rest;
  }
}

/// Code `place` of a quad, of which `before` bits precede it.
template <int place>
[[gnu::always_inline]] inline void decode_code(const Quad& quad, const LaneFloats& width,
                                               const LaneWords* halves,
                                               const QuadDecoding& decoding, std::uint32_t before,
                                               LaneFloats& number) {
  const float bias = decoding.bias, inverse = decoding.inverse_levels;
  const std::uint32_t turn = (kFirstTurn + before) % 32, left = (32 - turn) % 32;
  const std::uint32_t mask = decoding.mask;
  const std::uint32_t *quads = quad.words, *drawn = halves[place / 2];
#pragma omp simd
  for (int lane = 0; lane < kTileUnits; ++lane) {
    const std::uint32_t turned = quads[lane] >> turn | quads[lane] << left;
    const float step = width[lane] * inverse;
    number[lane] = decoded(turned & mask, offset_bits(drawn[lane], place % 2), step, bias * step);
  }
}

TRIACCEL_WIDE_VECTORS
void decode_quad(const Quad& words, const LaneFloats* const (&widths)[4], const LaneWords* halves,
                 const QuadDecoding* const (&codes)[4], LaneFloats* const (&numbers)[4]) {
  const std::uint32_t before1 = codes[0]->bits, before2 = before1 + codes[1]->bits,
                      before3 = before2 + codes[2]->bits;
  decode_code<0>(words, *widths[0], halves, *codes[0], 0, *numbers[0]);
  decode_code<1>(words, *widths[1], halves, *codes[1], before1, *numbers[1]);
  decode_code<2>(words, *widths[2], halves, *codes[2], before2, *numbers[2]);
  decode_code<3>(words, *widths[3], halves, *codes[3], before3, *numbers[3]);
}

template <int block, bool forward>
[[gnu::always_inline]] inline void transform_line(LaneFloats* x, int stride) {
#pragma omp simd
  for (int lane = 0; lane < kTileUnits; ++lane) {
    float y[block];
    for (int i = 0; i < block; ++i) y[i] = x[i * stride][lane];
    if constexpr (forward)
      Transform<block>::forward(y);
    else
      Transform<block>::back(y);
    for (int i = 0; i < block; ++i) x[i * stride][lane] = y[i];
  }
}

template <int block>
[[gnu::always_inline]] inline void scale_block(LaneFloats* x) {
  for (int i = 0; i < block * block; ++i) {
    const float scale = scale_at<block>(i / block, i % block);
    for (int lane = 0; lane < kTileUnits; ++lane) x[i][lane] *= scale;
  }
}

template <int block, bool forward>
[[gnu::always_inline]] inline void transform_blocks(LaneChunk& chunk) {
  for (int first = 0; first < codes_of_chunk(block); first += block * block) {
    LaneFloats* x = chunk.numbers + first;
    if constexpr (!forward && block != 7) scale_block<block>(x);
    for (int row = 0; row < block; ++row) transform_line<block, forward>(x + row * block, 1);
    for (int column = 0; column < block; ++column)
      transform_line<block, forward>(x + column, block);
    if constexpr (forward && block != 7) scale_block<block>(x);
  }
}

TRIACCEL_WIDE_VECTORS void forward_8(LaneChunk& chunk) { transform_blocks<8, true>(chunk); }
TRIACCEL_WIDE_VECTORS void forward_7(LaneChunk& chunk) { transform_blocks<7, true>(chunk); }
TRIACCEL_WIDE_VECTORS void forward_4(LaneChunk& chunk) { transform_blocks<4, true>(chunk); }
TRIACCEL_WIDE_VECTORS void back_8(LaneChunk& chunk) { transform_blocks<8, false>(chunk); }
TRIACCEL_WIDE_VECTORS void back_7(LaneChunk& chunk) { transform_blocks<7, false>(chunk); }
TRIACCEL_WIDE_VECTORS void back_4(LaneChunk& chunk) { transform_blocks<4, false>(chunk); }

TRIACCEL_WIDE_VECTORS
void widen_by(const LaneFloats* numbers, const std::uint8_t* bands, int count,
              LaneFloats* extremes) {
  for (int i = 0; i < count; ++i) {
    const float* x = numbers[i];
    float* extreme = extremes[bands[i] + 1];
#pragma omp simd
    for (int lane = 0; lane < kTileUnits; ++lane)
      extreme[lane] = larger(extreme[lane], magnitude(x[lane]));
  }
}

}  // namespace

void transform_lanes(LaneChunk& chunk, int block) {
  block == 8 ? forward_8(chunk) : block == 7 ? forward_7(chunk) : forward_4(chunk);
}

void transform_lanes_back(LaneChunk& chunk, int block) {
  block == 8 ? back_8(chunk) : block == 7 ? back_7(chunk) : back_4(chunk);
}

void widen_lanes(const LaneChunk& chunk, int block, LaneExtremes& extremes) {
  const CodeOrder& order = order_of(block);
  const int count = coefficients_of(block);
  for (int first = 0; first < codes_of_chunk(block); first += count) {
    const LaneFloats& means = chunk.numbers[first];
    for (int lane = 0; lane < kTileUnits; ++lane) {
      extremes.values[0][lane] = larger(extremes.values[0][lane], means[lane]);
      extremes.values[1][lane] = larger(extremes.values[1][lane], -means[lane]);
    }
    widen_by(chunk.numbers + first + 1, order.band_of_number.data() + 1, count - 1,
             extremes.values);
  }
}

UnitRanges ranges_from(const LaneExtremes& extremes, int lane) {
  const auto extreme = [&](int i) { return extremes.values[i][lane]; };
  const MiddleRange first = middle_range(extreme(0), extreme(1));
  return unit_ranges({range_code(first.range), range_code(extreme(2)), range_code(extreme(3)),
                      range_code(extreme(4)), range_code(extreme(5))},
                     first.middle);
}

void encode_lanes(LaneChunk& chunk, int block, const LaneScales& scales, const LaneOffsets& offsets,
                  const EncodeTable& table, std::uint8_t* codes) {
  const CodeOrder& order = order_of(block);
  for (int first = 0; first < codes_of_chunk(block); first += block * block)
    for (int lane = 0; lane < kTileUnits; ++lane) chunk.numbers[first][lane] -= scales.middle[lane];
  ChunkOffsets random(offsets);
  Quad quad, filling = {};
  for (int q = 0; q < quads_of_chunk(block); ++q) {
    if (q % 4 == 0 && (table.words.kept >> q & 15u) != 0) random.turn_to(q / 4);
    if ((table.words.kept >> q & 1u) == 0) continue;
    const LaneFloats *numbers[4], *inverse[4];
    for (int i = 0; i < 4; ++i) {
      const auto code = static_cast<std::size_t>(4 * q + i);
      numbers[i] = &chunk.numbers[order.number[code]];
      inverse[i] = &scales.bands[order.band[code]];
    }
    encode_quad(numbers, inverse, random.of_quad(q), factors_of(table, q), table.quads[q].rest,
                quad);
    const std::uint32_t value = table.quads[q].position_value;
    for (int lane = 0; lane < kTileUnits; ++lane) filling.words[lane] |= quad.words[lane] * value;
    if ((table.words.filling >> q & 1u) == 0) continue;
    std::memcpy(codes, filling.words, sizeof filling.words);
    codes += sizeof filling.words;
    for (int lane = 0; lane < kTileUnits; ++lane)  // what did not find room
      filling.words[lane] =
          static_cast<std::uint32_t>(std::uint64_t{quad.words[lane]} * value >> 32);
  }
  const int left = table.words.chunk_bits % 32;
  if (left >= 16)
    for (int lane = 0; lane < kTileUnits; ++lane, codes += 2)
      std::memcpy(codes, &filling.words[lane], 2);
  for (int lane = 0; left % 16 == 8 && lane < kTileUnits; ++lane)
    *codes++ = static_cast<std::uint8_t>(filling.words[lane] >> left / 16 * 16);
}

void decode_lanes(LaneChunk& chunk, int block, const LaneScales& scales, const LaneOffsets& offsets,
                  const DecodeTable& table, const std::uint8_t* codes) {
  const CodeOrder& order = order_of(block);
  const int chunk_bits = table.words.chunk_bits, whole = chunk_bits / 32, left = chunk_bits % 32;
  alignas(64) LaneWords read[kMaxQuads + 1] = {};
  std::memcpy(read, codes, static_cast<std::size_t>(whole) * sizeof(LaneWords));
  codes += static_cast<std::size_t>(whole) * sizeof(LaneWords);
  if (left >= 16)
    for (int lane = 0; lane < kTileUnits; ++lane, codes += 2)
      std::memcpy(&read[whole][lane], codes, 2);
  for (int lane = 0; left % 16 == 8 && lane < kTileUnits; ++lane)
    read[whole][lane] |= std::uint32_t{*codes++} << left / 16 * 16;

  ChunkOffsets random(offsets);
  Quad quad;
  const LaneWords* at = read;
  for (int q = 0; q < quads_of_chunk(block); ++q) {
    LaneFloats* numbers[4];
    const LaneFloats* widths[4];
    const QuadDecoding* decodings[4];
    LaneFloats unused;
    for (int i = 0; i < 4; ++i) {
      const auto code = static_cast<std::size_t>(4 * q + i);
      numbers[i] = 4 * q + i < codes_of_chunk(block) ? &chunk.numbers[order.number[code]] : &unused;
      widths[i] = &scales.bands[order.band[code]];
      decodings[i] = q == 0 ? &table.first[i] : &table.quads[q];
    }
    if (q % 4 == 0) random.turn_to(q / 4);
    const std::uint32_t position = table.positions[q], above = 31 - position;
    for (int lane = 0; lane < kTileUnits; ++lane)
      quad.words[lane] = at[0][lane] >> position | at[1][lane] << 1 << above;
    decode_quad(quad, widths, random.of_quad(q), decodings, numbers);
    if ((table.words.filling >> q & 1u) != 0) ++at;
  }
  for (int first = 0; first < codes_of_chunk(block); first += block * block)
    for (int lane = 0; lane < kTileUnits; ++lane) chunk.numbers[first][lane] += scales.middle[lane];
}

}  // namespace triaccel::kernels::cpu
