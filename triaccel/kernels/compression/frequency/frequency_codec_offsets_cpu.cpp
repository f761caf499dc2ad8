#include "triaccel/kernels/compression/frequency/frequency_codec_lanes.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "triaccel/base/host_device.h"

namespace triaccel::kernels::cpu {
namespace {

#ifdef __x86_64__
/// Philox for 32 lanes, whose calls differ in the lowest word alone. A counter's words stand in
/// vectors of 64 bits, whose upper halves do not count: no product has to be taken apart. GCC
/// multiplies such vectors as if they did.
[[gnu::target("avx2")]] void draw_lanes_avx2(const LaneOffsets& offsets, LaneWords (&words)[8]) {
  const std::uint64_t call = offsets.first;
  const auto all = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  const __m256i factor0 = _mm256_set1_epi64x(0xD2511F53), factor2 = _mm256_set1_epi64x(0xCD9E8D57);
  for (int lane = 0; lane < kTileUnits; lane += 8) {
    __m256i c[4][2];  // word of the counter, even or odd lanes
    for (int odd = 0; odd < 2; ++odd) {
      const std::int64_t first = kUnitChunks * (lane + odd), next = 2 * kUnitChunks;
      c[0][odd] = _mm256_add_epi64(
          _mm256_set1_epi64x(all(call)),
          _mm256_set_epi64x(first + 3 * next, first + 2 * next, first + next, first));
      c[1][odd] = _mm256_set1_epi64x(all(call >> 32));
      c[2][odd] = _mm256_set1_epi64x(all(offsets.high));
      c[3][odd] = _mm256_set1_epi64x(all(offsets.high >> 32));
    }
    for (const std::uint32_t(&keys)[2] : offsets.draws.keys.of_round) {
      const __m256i key0 = _mm256_set1_epi64x(keys[0]), key1 = _mm256_set1_epi64x(keys[1]);
      for (int odd = 0; odd < 2; ++odd) {
        const __m256i p0 = _mm256_mul_epu32(c[0][odd], factor0);
        const __m256i p2 = _mm256_mul_epu32(c[2][odd], factor2);
        c[0][odd] = _mm256_xor_si256(_mm256_srli_epi64(p2, 32), _mm256_xor_si256(c[1][odd], key0));
        c[2][odd] = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(c[3][odd], key1));
        c[1][odd] = p2;
        c[3][odd] = p0;
      }
    }
    for (int word = 0; word < 4; ++word) {
      const __m256i drawn = _mm256_blend_epi32(c[word][0], _mm256_slli_epi64(c[word][1], 32), 0xaa);
      const __m256i turned =
          _mm256_or_si256(_mm256_srli_epi32(drawn, 8), _mm256_slli_epi32(drawn, 24));
      _mm256_store_si256(reinterpret_cast<__m256i*>(words[word] + lane), drawn);
      _mm256_store_si256(reinterpret_cast<__m256i*>(words[word + 4] + lane), turned);
    }
  }
}
#endif

TRIACCEL_WIDE_VECTORS
void draw_lanes(const LaneOffsets& offsets, LaneWords (&words)[8]) {
  const DitherDraws draws = offsets.draws;
  const std::uint64_t call = offsets.first, high = offsets.high;
#pragma omp simd
  for (std::uint32_t lane = 0; lane < kTileUnits; ++lane) {
    const OffsetWords drawn = offset_words(draws.words(call + kUnitChunks * lane, high));
    for (int i = 0; i < 8; ++i) words[i][lane] = drawn.words[i];
  }
}

TRIACCEL_WIDE_VECTORS
void add_lanes(const OffsetLanes& first, int sixteenth, OffsetLanes& later) {
#pragma omp simd
  for (std::uint32_t lane = 0; lane < kTileUnits; ++lane) {
    OffsetWords words;
    for (int i = 0; i < 8; ++i) words.words[i] = first.words[i][lane];
    words = chunk_offsets(words, sixteenth);
    for (int i = 0; i < 8; ++i) later.words[i][lane] = words.words[i];
  }
}

void draw_first(const LaneOffsets& offsets, OffsetLanes& first) {
#ifdef __x86_64__
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (offsets.random && has_avx2) return draw_lanes_avx2(offsets, first.words);
#endif
  if (offsets.random) return draw_lanes(offsets, first.words);
  for (LaneWords& row : first.words)
    for (std::uint32_t& word : row) word = kHalfOffsets;
}

}  // namespace

ChunkOffsets::ChunkOffsets(const LaneOffsets& offsets) : random_(offsets.random) {
  draw_first(offsets, first_);
}

void ChunkOffsets::turn_to(int sixteenth) {
  current_ = sixteenth > 0 && random_ ? &later_ : &first_;
  if (current_ == &later_) add_lanes(first_, sixteenth, later_);
}

}  // namespace triaccel::kernels::cpu
