#pragma once

#include <type_traits>

#include "triaccel/kernels/common/vector_access.cuh"
#include "triaccel/kernels/compression/groups/group_codec_math.h"

// A warp takes a tile of Note [Tiles of groups], a thread is one of its lanes: eight lanes touch a
// whole line of F32 at a time.
namespace triaccel::kernels::cuda::groups {

inline constexpr int kTileThreads = 128;  // small: few tiles are to occupy all multiprocessors
inline constexpr int kBlockTiles = kTileThreads / kGroupLanes;
inline constexpr int kCallsOfLane = kGroupPlaces / 8;
inline constexpr int kCallsOfTile = kCallsOfLane * kGroupLanes;
inline constexpr unsigned kAllLanes = 0xffffffffu;

struct TileWork {
  std::int64_t count;
  std::int64_t tiles;
  bool aligned;  // values can be moved four at a time
  Rounding rounding;
  DitherDraws draws;
  GroupWidths widths;
  std::uint32_t above_16_bits;  // 0x4b00, which makes a float of 2^23 and more of sixteen bits; as
                                // an argument, since as a constant it takes the selector's place
};

inline TileWork work_of(const GroupCoding& coding, const void* values) {
  return {.count = coding.count,
          .tiles = group_tiles(coding.count),
          .aligned = aligned_for_vectors(values),
          .rounding = coding.rounding,
          .draws = DitherDraws(coding.key),
          .widths = group_widths(coding.eighths),
          .above_16_bits = 0x4b00u};
}

/// What a lane knows of its place.
struct Lane {
  std::int64_t tile;
  int lane;

  __device__ std::int64_t group_begin() const { return tile * kGroupTile + lane / 8 * 256; }
  /// The first of the four elements of row k.
  __device__ std::int64_t row_begin(int k) const { return group_begin() + k * 32 + lane % 8 * 4; }
};

__device__ inline Lane this_lane(std::int64_t first_tile = 0) {
  return {first_tile + std::int64_t{blockIdx.x} * kBlockTiles + threadIdx.x / kGroupLanes,
          static_cast<int>(threadIdx.x % kGroupLanes)};
}

/// Larger of the two, NaN if one is.
__device__ inline float max_or_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
#else
  return a > b || a != a ? a : b;
#endif
}

struct Extremes {
  float least, largest;  // the latter is NaN if a value is

  __device__ void widen(float other_least, float other_largest) {
    least = fminf(least, other_least);
    largest = max_or_nan(largest, other_largest);
  }
};

/// Extremes of pairs of halves, both of a pair at once.
template <typename Stored>
__device__ inline void widen_pairs(Stored, std::uint32_t& least, std::uint32_t& largest,
                                   std::uint32_t pair) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<Stored, StoredAs<FloatType::Bf16>>) {
    asm("min.bf16x2 %0, %0, %1;" : "+r"(least) : "r"(pair));
    asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(largest) : "r"(pair));
  } else {
    asm("min.f16x2 %0, %0, %1;" : "+r"(least) : "r"(pair));
    asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(largest) : "r"(pair));
  }
#else
  std::uint32_t smaller = 0, larger = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    const auto value = [shift](std::uint32_t word) {
      return Stored::value(static_cast<std::uint16_t>(word >> shift));
    };
    Extremes both = {value(least), value(largest)};
    both.widen(value(pair), value(pair));
    smaller |= std::uint32_t{Stored::word(both.least)} << shift;
    larger |= std::uint32_t{Stored::word(both.largest)} << shift;
  }
  least = smaller, largest = larger;
#endif
}

/// The values of a lane as they are stored: halves stay two to a register until they are used.
template <typename Stored>
struct LaneValues {
  using Word = typename Stored::Word;
  static constexpr int kRegisters = kGroupPlaces * sizeof(Word) / 4;
  static constexpr int kRowRegisters = kRegisters / kGroupRows;

  std::uint32_t raw[kRegisters];

  __device__ static float value_in(std::uint32_t word, int half) {
    if constexpr (sizeof(Word) == 4)
      return __uint_as_float(word);
    else
      return Stored::value(static_cast<Word>(word >> (half * 16)));
  }
  __device__ float value(int p) const {
    return sizeof(Word) == 4 ? value_in(raw[p], 0) : value_in(raw[p / 2], p % 2);
  }

  __device__ void load(const void* values, const TileWork& work, const Lane& at) {
    const auto* from = static_cast<const Word*>(values);
    if (work.aligned && (at.tile + 1) * kGroupTile <= work.count) {
#pragma unroll
      for (int k = 0; k < kGroupRows; ++k) load_row(from + at.row_begin(k), k * kRowRegisters);
      return;
    }
    // Codes are made of these as of all others, so that a tensor has one stored form.
    const std::int64_t first = at.group_begin();
    const Word missing = first < work.count ? from[first] : Word{};
#pragma unroll
    for (int p = 0; p < kGroupPlaces; ++p) {
      const std::int64_t element = at.row_begin(p / 4) + p % 4;
      const Word word = element < work.count ? from[element] : missing;
      if constexpr (sizeof(Word) == 4)
        raw[p] = __float_as_uint(word);
      else
        raw[p / 2] = p % 2 == 0 ? word : raw[p / 2] | std::uint32_t{word} << 16;
    }
  }

  __device__ Extremes extremes() const {
    Extremes found = {value(0), value(0)};
    if constexpr (sizeof(Word) == 4) {
#pragma unroll
      for (int p = 1; p < kGroupPlaces; ++p) found.widen(value(p), value(p));
    } else {
      std::uint32_t least = raw[0], largest = raw[0];
#pragma unroll
      for (int i = 1; i < kRegisters; ++i) widen_pairs(Stored{}, least, largest, raw[i]);
      found = {value_in(least, 0), value_in(largest, 0)};
      found.widen(value_in(least, 1), value_in(largest, 1));
    }
    return found;
  }

 private:
  __device__ void load_row(const Word* from, int first) {
    if constexpr (sizeof(Word) == 4) {
      const uint4 row = *reinterpret_cast<const uint4*>(from);
      raw[first] = row.x, raw[first + 1] = row.y, raw[first + 2] = row.z, raw[first + 3] = row.w;
    } else {
      const uint2 row = *reinterpret_cast<const uint2*>(from);
      raw[first] = row.x, raw[first + 1] = row.y;
    }
  }
};

/// Of the eight lanes that share a group.
__device__ inline GroupRange range_of_group(Extremes found) {
#pragma unroll
  for (int step = 1; step < 8; step *= 2)
    found.widen(__shfl_xor_sync(kAllLanes, found.least, step),
                __shfl_xor_sync(kAllLanes, found.largest, step));
  return group_range(found.least, found.largest);
}

/// The random bits of a lane.
struct LaneBits {
  const DitherDraws& draws;
  std::uint64_t first_call, high;

  __device__ LaneBits(const TileWork& work, const Lane& at)
      : draws(work.draws),
        first_call(static_cast<std::uint64_t>(at.tile * kCallsOfTile + at.lane * kCallsOfLane)),
        high(work.draws.high()) {}

  /// Those of the places 8 * call .. 8 * call + 7, two to a word.
  __device__ RandomWords operator()(int call) const {
    return draws.words(first_call + static_cast<std::uint64_t>(call), high);
  }
};

/// Sixteen bits as the lower part of a float of 2^23 and more: exact, and without a conversion.
__device__ inline float bits_above_2_to_23(std::uint32_t word, int half, std::uint32_t above) {
  return __uint_as_float(__byte_perm(word, above, half == 0 ? 0x5410 : 0x5432));
}

/// body<bits> for the run-time bits of a code: one branch for all lanes, and shifts by constants.
template <typename Body>
__device__ inline void with_bits(int bits, Body body) {
  switch (bits) {
    case 1:
      return body.template operator()<1>();
    case 2:
      return body.template operator()<2>();
    case 3:
      return body.template operator()<3>();
    case 4:
      return body.template operator()<4>();
    case 5:
      return body.template operator()<5>();
    case 6:
      return body.template operator()<6>();
    case 7:
      return body.template operator()<7>();
    default:  // a number, not an enum
      return body.template operator()<8>();
  }
}

}  // namespace triaccel::kernels::cuda::groups
