#pragma once

#include "triaccel/base/divide_up.h"
#include "triaccel/kernels/common/vector_access.cuh"
#include "triaccel/kernels/compression/dither.h"
#include "triaccel/kernels/compression/masks/bit_mask_codec.cuh"
#include "triaccel/kernels/compression/nonzeros/nonzero_codec_math.h"

// A warp takes a tile of non-zeros. Lane l has quad l of every group, each group being a row of
// memory, and at another time word l of the mask, whose eight quads come together through shared
// memory: there the lane knows how many codes lie before its own.
namespace triaccel::kernels::cuda {

inline constexpr int kNonZeroThreads = 128;  // few tiles are to occupy all multiprocessors
inline constexpr int kNonZeroBlock = kNonZeroThreads / 32;  // tiles
inline constexpr int kQuad = 4;
inline constexpr int kWordQuads = 32 / kQuad;

struct NonZeroWork {
  std::int64_t count, tiles;
  int eighths;
  bool aligned;  // values can be moved four at a time
  Rounding rounding;
  DitherDraws draws;
};

inline NonZeroWork nonzero_work(const NonZeroCoding& coding, const void* values) {
  return {.count = coding.count,
          .tiles = divide_up(coding.count, kNonZeroTile),
          .eighths = coding.eighths,
          .aligned = aligned_for_vectors(values),
          .rounding = coding.rounding,
          .draws = DitherDraws(coding.key)};
}

struct NonZeroPlace {
  std::int64_t tile;
  int lane, warp;

  __device__ std::int64_t element(int row) const {
    return tile * kNonZeroTile + row * kNonZeroGroup + lane * kQuad;
  }
  __device__ bool is_whole(const NonZeroWork& work) const {
    return work.aligned && (tile + 1) * kNonZeroTile <= work.count;
  }
  __device__ bool has_word(const NonZeroWork& work) const {
    return tile * kNonZeroTile + lane * 32 < work.count;
  }
};

__device__ inline NonZeroPlace nonzero_place() {
  const int warp = static_cast<int>(threadIdx.x / 32);
  return {std::int64_t{blockIdx.x} * kNonZeroBlock + warp, static_cast<int>(threadIdx.x % 32),
          warp};
}

__device__ inline int warp_sum(int value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(kAllLanes, value);
#else
  for (int step = 1; step < 32; step *= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
#endif
}

/// Of this lane and those before.
__device__ inline int sum_until(int value) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int lower = __shfl_up_sync(kAllLanes, value, step);
    if (threadIdx.x % 32 >= step) value += lower;
  }
  return value;
}

/// Which codes are how wide, and where those of a lane's word lie.
struct WordCodes {
  std::uint32_t narrow;        // bits of a code
  int wide_quads;              // of the tile, from its start: one bit more
  std::uint32_t place;         // bit of the room where the codes of this lane's word begin
  std::uint32_t even_lengths;  // bits of the word's quads 0, 2, 4 and 6, a byte each
  std::uint32_t odd_lengths;

  __device__ std::uint32_t length(int quad) const {
    return (quad % 2 == 0 ? even_lengths : odd_lengths) >> quad / 2 * 8 & 0xffu;
  }
  /// Whether a lane's quad of a row is wide.
  __device__ bool is_wide(int row, int lane) const { return row * 32 < wide_quads - lane; }
};

/// `word` is the lane's word of the mask.
__device__ inline WordCodes word_codes(std::uint32_t word, int eighths, int lane) {
  const std::uint32_t pairs = word - (word >> 1 & 0x55555555u);
  const std::uint32_t fours = (pairs & 0x33333333u) + (pairs >> 2 & 0x33333333u);
  const std::uint32_t even = fours & 0x0f0f0f0fu, odd = fours >> 4 & 0x0f0f0f0fu;
  const int own = __popc(word), until = sum_until(own), before = until - own;
  const int count = __shfl_sync(kAllLanes, until, 31), room = eighths * (kNonZeroTile / 8);
  const bool fits = lane < kWidestCode && count * (lane + 1) <= room;
  const int narrow = __popc(__ballot_sync(kAllLanes, fits));
  const int spare = narrow == kWidestCode ? 0 : room - count * narrow;
  // As many of the word's quads are wide, from its start, as have a bit to spare for each code.
  int left = spare - before, wide_bits = 0;
  const auto take = [&](int bits) {
    const int next = __popc(word >> wide_bits & ((1u << bits) - 1));
    if (next > left) return;
    left -= next;
    wide_bits += bits;
  };
  take(16);
  take(8);
  take(4);
  take(4);
  const int wide_codes = spare - before - left;
  const int sums = warp_sum(wide_codes << 16 | wide_bits / kQuad);
  const std::uint32_t wide = __funnelshift_lc(0u, 1u, wide_bits) - 1;
  const auto width = static_cast<std::uint32_t>(narrow);
  return {.narrow = width,
          .wide_quads = sums & 0xffff,
          .place = before * width + min(before, sums >> 16),
          .even_lengths = even * width + (even & wide),
          .odd_lengths = odd * width + (odd & wide >> 4)};
}

}  // namespace triaccel::kernels::cuda
