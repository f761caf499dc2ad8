#pragma once

#include <cstdint>

#include "triaccel/core/frequency_bands.h"
#include "triaccel/kernels/compression/frequency/frequency_codec_math.h"

// What the bits of coefficients mean for a chunk's codes, worked out once so that loops over codes
// have no decisions to take.
namespace triaccel::kernels {

inline constexpr int kMaxCodes = 64;
inline constexpr int kMaxQuads = 16;
constexpr int codes_of_chunk(int block) { return coefficients_of(block) * blocks_of_chunk(block); }
constexpr int quads_of_chunk(int block) { return (codes_of_chunk(block) + 3) / 4; }

/// Which coefficient a chunk's code stands for. Codes of 4 x 4 blocks go through the blocks of a
/// chunk first.
struct CodedPlace {
  int block, place;
};
constexpr CodedPlace coded_place(int block, int code) {
  return block == 4 ? CodedPlace{code % 4, code / 4} : CodedPlace{0, code};
}

/// Four codes that follow each other, a quad, fit a word. All have the same bits, but in the first
/// one of 8 x 8 and 7 x 7 blocks.
struct QuadWords {
  std::uint32_t kept = 0;     // bit i: quad i has bits
  std::uint32_t filling = 0;  // bit i: a word is full after quad i
  std::int32_t chunk_bits = 0;
};

/// For code_bits: a quad is the sum of its codes' bits, each times 2 to the bits before it, plus
/// `rest`. It is worth position_value in the word that is being filled; 0 where it has no bits.
struct QuadEncoding {
  float levels_less_one = 0;
  std::uint32_t factor = 0;  // 2 to the bits of a code
  std::uint32_t rest = 0;
  std::uint32_t position_value = 0;
};

struct EncodeTable {
  QuadEncoding quads[kMaxQuads] = {};
  float first_levels_less_one[4] = {};  // of quad 0, code by code
  std::uint32_t first_values[4] = {};   // 0 for codes without bits
  QuadWords words = {};
};

/// For decoded: a quad begins at bit `position` of a word; its first code stands at bit 15, under
/// `mask`, once it is turned right by kFirstTurn, and each following one after a turn by `bits`
/// more.
inline constexpr std::uint32_t kFirstTurn = 32 - 15;
struct QuadDecoding {
  float inverse_levels = 0;
  float bias = 0;  // in steps
  std::uint32_t mask = 0;
  std::uint32_t bits = 0;
};

struct DecodeTable {
  QuadDecoding quads[kMaxQuads] = {};
  QuadDecoding first[4] = {};  // of quad 0, code by code
  std::uint32_t positions[kMaxQuads] = {};
  QuadWords words = {};
};

/// body(code, its bits, bits before it in its quad), and after(quad, bits before it in its word)
/// behind each quad.
template <typename Body, typename After>
QuadWords for_each_code(int block, const CoefficientBits& bits, Body body, After after) {
  QuadWords words = {};
  for (int quad = 0; quad < quads_of_chunk(block); ++quad) {
    int in_quad = 0;
    for (int code = 4 * quad; code < 4 * quad + 4 && code < codes_of_chunk(block); ++code) {
      const int width = bits[static_cast<std::size_t>(coded_place(block, code).place)];
      body(code, width, in_quad);
      in_quad += width;
    }
    const int position = words.chunk_bits % 32;
    after(quad, position);
    words.kept |= (in_quad > 0 ? 1u : 0u) << quad;
    words.filling |= (position + in_quad >= 32 ? 1u : 0u) << quad;
    words.chunk_bits += in_quad;
  }
  return words;
}

inline EncodeTable encode_table(int block, const CoefficientBits& bits) {
  EncodeTable table = {};
  table.words = for_each_code(
      block, bits,
      [&](int code, int width, int before) {
        if (width == 0) return;
        const std::uint32_t levels = 1u << width, value = 1u << before;
        QuadEncoding& quad = table.quads[code / 4];
        quad.levels_less_one = static_cast<float>(levels - 1);
        quad.factor = levels;
        quad.rest += (levels / 2 - kCodeBaseBits) * value;
        if (code >= 4) return;
        table.first_levels_less_one[code] = quad.levels_less_one;
        table.first_values[code] = value;
      },
      [&](int quad, int position) {
        QuadEncoding& encoding = table.quads[quad];
        encoding.position_value = encoding.factor > 0 ? 1u << position : 0;
      });
  return table;
}

inline DecodeTable decode_table(int block, const CoefficientBits& bits) {
  DecodeTable table = {};
  table.words = for_each_code(
      block, bits,
      [&](int code, int width, int) {
        const std::uint32_t levels = 1u << width;
        table.quads[code / 4] = {
            .inverse_levels = width > 0 ? 1.0f / static_cast<float>(levels - 1) : 0.0f,
            .bias = 256.0f + static_cast<float>(levels / 2),
            .mask = (levels - 1) << 15,
            .bits = static_cast<std::uint32_t>(width)};
        if (code < 4) table.first[code] = table.quads[0];
      },
      [&](int quad, int position) {
        table.positions[quad] = static_cast<std::uint32_t>(position);
      });
  return table;
}

}  // namespace triaccel::kernels
