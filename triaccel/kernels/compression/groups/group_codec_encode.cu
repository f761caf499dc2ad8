#include "triaccel/kernels/compression/groups/group_codec.h"

#include "triaccel/kernels/common/launch.cuh"
#include "triaccel/kernels/compression/groups/group_lane.cuh"

namespace triaccel::kernels::cuda {
namespace {

using namespace groups;

/// Moves the extra bits of the codes of one kind of places out of them, the first to the lowest of
/// `kCount` bits.
template <int kKind, int kCount>
__device__ std::uint32_t split_extra(std::uint32_t (&codes)[kGroupPlaces]) {
  std::uint32_t extra = 0;
#pragma unroll
  for (int p = 0; p < kGroupPlaces; ++p) {
    if (group_place_kind(p) != kKind) continue;
    extra = __funnelshift_r(extra, codes[p], 1);
    codes[p] >>= 1;
  }
  return extra >> (32 - kCount);
}

/// The lowest kBits of all codes one behind the other. What stands above them in a code is ignored.
template <int kBits>
__device__ void store_words(const std::uint32_t (&codes)[kGroupPlaces], std::uint32_t* to) {
  std::uint32_t words[kBits] = {};
#pragma unroll
  for (int p = 0; p < kGroupPlaces; ++p) {
    const int word = p * kBits / 32, room = 32 - p * kBits % 32;
    if (room >= kBits) {
      words[word] = __funnelshift_r(words[word], codes[p], kBits);
    } else {
      words[word] = __funnelshift_r(words[word], codes[p], room);
      words[word + 1] = __funnelshift_r(0u, codes[p] >> room, kBits - room);
    }
  }
#pragma unroll
  for (int i = 0; i < kBits; ++i) to[i * kGroupLanes] = words[i];
}

__device__ std::uint32_t* words_of(std::uint8_t* words, const Lane& at, int bits) {
  return reinterpret_cast<std::uint32_t*>(words) + at.tile * bits * kGroupLanes + at.lane;
}

template <typename Stored>
__global__ void __launch_bounds__(kTileThreads)
    encode_kernel(const void* values, const GroupParts<std::uint8_t> parts,
                  std::int32_t* not_finite, const __grid_constant__ TileWork work) {
  const Lane at = this_lane();
  if (at.tile >= work.tiles) return;
  LaneValues<Stored> lane_values;
  lane_values.load(values, work, at);
  const GroupRange range = range_of_group(lane_values.extremes());
  if (at.lane % 8 == 0) {
    reinterpret_cast<std::uint32_t*>(parts.ranges)[at.tile * kGroupsOfTile + at.lane / 8] =
        stored_group_range(range);
    if (not_finite != nullptr && range.low != range.low) atomicAdd(not_finite, 1);
  }
  const float scale = group_scale(range);
  float scales[kGroupPlaceKinds];
#pragma unroll
  for (int kind = 0; kind < kGroupPlaceKinds; ++kind)
    scales[kind] = scale * work.widths.kinds[kind].top;
  const LaneBits lane_bits(work, at);
  // Offsets arrive on top of 2^23; a code leaves in the lowest bits of 2^39 + 65536 * code.
  const float below = 0x1.0p23f - group_offset_shift(work.rounding);
  std::uint32_t codes[kGroupPlaces];
#pragma unroll
  for (int call = 0; call < kCallsOfLane; ++call) {
    RandomWords bits = {{kGroupHalfBits, kGroupHalfBits, kGroupHalfBits, kGroupHalfBits}};
    if (work.rounding != Rounding::Nearest) bits = lane_bits(call);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int p = call * 8 + i, kind = group_place_kind(i);
      const float offset = bits_above_2_to_23(bits.words[i / 2], i % 2, work.above_16_bits) - below;
      const float position = group_position(lane_values.value(p), range.low, scales[kind], offset,
                                            work.widths.kinds[kind].limit);
      codes[p] = __float_as_uint(__fadd_rd(position, 0x1.0p39f));
    }
  }
  const std::int64_t lane = at.tile * kGroupLanes + at.lane;
  if (work.widths.rest & 4)
    reinterpret_cast<std::uint16_t*>(parts.extra4)[lane] =
        static_cast<std::uint16_t>(split_extra<1, 16>(codes));
  if (work.widths.rest & 2)
    parts.extra2[lane] = static_cast<std::uint8_t>(split_extra<2, 8>(codes));
  if (work.widths.rest & 1) {
    const std::uint32_t own = split_extra<3, 4>(codes);
    const std::uint32_t next = __shfl_down_sync(kAllLanes, own, 1);
    if (at.lane % 2 == 0) parts.extra1[lane / 2] = static_cast<std::uint8_t>(own | next << 4);
  }
  with_bits(work.widths.bits,
            [&]<int kBits>() { store_words<kBits>(codes, words_of(parts.words, at, kBits)); });
}

}  // namespace

void encode_groups(const GroupCoding& coding, const void* values, void* codes,
                   std::int32_t* not_finite, cudaStream_t stream) {
  if (coding.count == 0) return;
  const TileWork work = work_of(coding, values);
  const auto parts = group_parts(coding, static_cast<std::uint8_t*>(codes));
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    encode_kernel<Stored><<<blocks_for(work.tiles, kBlockTiles), kTileThreads, 0, stream>>>(
        values, parts, not_finite, work);
  });
  check_launch("encode_groups");
}

}  // namespace triaccel::kernels::cuda
