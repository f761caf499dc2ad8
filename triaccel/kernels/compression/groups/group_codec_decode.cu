#include "triaccel/kernels/common/launch.cuh"
#include "triaccel/kernels/compression/groups/group_codec.h"
#include "triaccel/kernels/compression/groups/group_lane.cuh"
#include "triaccel/kernels/compression/groups/group_map.cuh"

namespace triaccel::kernels::cuda {
namespace {

using namespace groups;

/// The codes of a lane without their extra bits, plus `above` each.
template <int kBits>
__device__ void load_words(const std::uint32_t* from, std::uint32_t above,
                           std::uint32_t (&codes)[kGroupPlaces]) {
  std::uint32_t words[kBits];
#pragma unroll
  for (int i = 0; i < kBits; ++i) words[i] = from[i * kGroupLanes];
  constexpr std::uint32_t mask = (1u << kBits) - 1;
#pragma unroll
  for (int p = 0; p < kGroupPlaces; ++p) {
    const int word = p * kBits / 32, shift = p * kBits % 32;
    const std::uint32_t found = shift + kBits <= 32
                                    ? words[word] >> shift
                                    : __funnelshift_r(words[word], words[word + 1], shift);
    codes[p] = (found & mask) | above;
  }
}

/// Puts the extra bits back below the codes of one kind of places; `above` stays as it is.
template <int kKind>
__device__ void join_extra(std::uint32_t extra, std::uint32_t above,
                           std::uint32_t (&codes)[kGroupPlaces]) {
  int next = 0;
#pragma unroll
  for (int p = 0; p < kGroupPlaces; ++p) {
    if (group_place_kind(p) != kKind) continue;
    codes[p] = 2 * codes[p] + ((extra >> next++ & 1u) - above);
  }
}

/// body(codes of a lane, whether they may have eight bits as a constant). Where they cannot, they
/// come with TileWork::above_16_bits above them.
template <typename Body>
__device__ void with_codes(const GroupParts<const std::uint8_t>& parts, const TileWork& work,
                           const Lane& at, Body body) {
  const std::int64_t lane = at.tile * kGroupLanes + at.lane;
  const int rest = work.widths.rest;
  std::uint32_t codes[kGroupPlaces];
  const auto join_extras = [&](std::uint32_t above) {
    if (rest & 4)
      join_extra<1>(reinterpret_cast<const std::uint16_t*>(parts.extra4)[lane], above, codes);
    if (rest & 2) join_extra<2>(parts.extra2[lane], above, codes);
    if (rest & 1) join_extra<3>(parts.extra1[lane / 2] >> (at.lane % 2 * 4), above, codes);
  };
  const auto words = [&](int bits) {
    return reinterpret_cast<const std::uint32_t*>(parts.words) + at.tile * bits * kGroupLanes +
           at.lane;
  };
  if (work.widths.bits < 7) {
    with_bits(work.widths.bits, [&]<int kBits>() {
      if constexpr (kBits < 7) load_words<kBits>(words(kBits), work.above_16_bits, codes);
    });
    join_extras(work.above_16_bits);
    body(codes, std::false_type{});
  } else {
    with_bits(work.widths.bits, [&]<int kBits>() {
      if constexpr (kBits >= 7) load_words<kBits>(words(kBits), 0u, codes);
    });
    join_extras(0u);
    body(codes, std::true_type{});
  }
}

/// Four values, of codes at the places `row` * 4 and following ones of a call's eight.
template <bool kEightBits>
__device__ void value_quad(const std::uint32_t* codes, const RandomWords& bits, int row,
                           const GroupValues (&kinds)[kGroupPlaceKinds], float (&quad)[4]) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int i = row * 4 + j;
    const GroupValues& values = kinds[group_place_kind(i)];
    const float joined = bits_above_2_to_23(bits.words[i / 2], i % 2, codes[i]);
    const float position =
        kEightBits ? static_cast<float>(static_cast<int>(__float_as_uint(joined)) - 32768)
                   : joined - (0x1.0p23f + 32768.0f);
    quad[j] = values.low + values.step * position;
  }
}

/// row(k, its four values) for the eight rows of a lane. Offsets are subtracted, if `dither`.
template <bool kEightBits, typename Row>
__device__ void for_each_row(const std::uint32_t (&codes)[kGroupPlaces], GroupRange range,
                             const TileWork& work, const LaneBits& lane_bits, bool dither,
                             Row row) {
  GroupValues kinds[kGroupPlaceKinds];
#pragma unroll
  for (int kind = 0; kind < kGroupPlaceKinds; ++kind)
    kinds[kind] = group_values(range, work.widths.kinds[kind].inverse, work.rounding);
#pragma unroll
  for (int call = 0; call < kCallsOfLane; ++call) {
    RandomWords bits = {{kGroupHalfBits, kGroupHalfBits, kGroupHalfBits, kGroupHalfBits}};
    if (dither) {
      bits = lane_bits(call);
#pragma unroll
      for (int i = 0; i < 4; ++i) bits.words[i] = ~bits.words[i];
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float quad[4];
      value_quad<kEightBits>(&codes[call * 8], bits, half, kinds, quad);
      row(call * 2 + half, quad);
    }
  }
}

__device__ GroupRange range_of_lane(const GroupParts<const std::uint8_t>& parts, const Lane& at) {
  return read_group_range(
      reinterpret_cast<const std::uint32_t*>(parts.ranges)[at.tile * kGroupsOfTile + at.lane / 8]);
}

/// Tiles from `first_tile` on, whatever they are: ragged, not aligned, of any map and rounding.
template <typename Stored, bool kMapped>
__global__ void __launch_bounds__(kTileThreads)
    decode_kernel(const GroupParts<const std::uint8_t> parts, void* values, std::int64_t first_tile,
                  const __grid_constant__ TileWork work, const __grid_constant__ QuadMap map) {
  const Lane at = this_lane(first_tile);
  if (at.tile >= work.tiles) return;
  auto* to = static_cast<typename Stored::Word*>(values);
  const bool whole = work.aligned && (at.tile + 1) * kGroupTile <= work.count;
  const GroupRange range = range_of_lane(parts, at);
  const LaneBits lane_bits(work, at);
  const bool dither = work.rounding == Rounding::Dither;
  const auto store = [&](int k, float(&quad)[4]) {
    const std::int64_t element = at.row_begin(k);
    if constexpr (kMapped) map.apply(element, work.count, quad);
    if (whole) return store_quad<Stored>(to + element, quad);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (element + j < work.count) to[element + j] = Stored::word(quad[j]);
  };
  with_codes(parts, work, at, [&](const auto& codes, auto eight_bits) {
    for_each_row<eight_bits>(codes, range, work, lane_bits, dither, store);
  });
}

/// The first `whole_tiles`, aligned and encoded with dither: values are made and stored in one run
/// of instructions without a branch.
template <typename Stored, NormSource source, Function function>
__global__ void __launch_bounds__(kTileThreads)
    decode_whole_kernel(const GroupParts<const std::uint8_t> parts, void* values,
                        std::int64_t whole_tiles, const __grid_constant__ TileWork work,
                        const __grid_constant__ QuadMap map) {
  const Lane at = this_lane();
  if (at.tile >= whole_tiles) return;
  auto* to = static_cast<typename Stored::Word*>(values) + at.row_begin(0);
  const GroupRange range = range_of_lane(parts, at);
  const LaneBits lane_bits(work, at);
  LaneMap<source, function> lane_map(map, at);
  const auto store = [&](int k, float(&quad)[4]) {
    lane_map.apply(at, k, quad);
    store_quad<Stored>(to + k * 32, quad);
  };
  with_codes(parts, work, at, [&](const auto& codes, auto eight_bits) {
    for_each_row<eight_bits>(codes, range, work, lane_bits, true, store);
  });
}

/// The kernel for whole tiles of a map, null where it needs the general one.
template <typename Stored>
auto whole_kernel(const QuadMap& quads) {
  const CodecMap& map = quads.map;
  const auto absent = decode_whole_kernel<Stored, NormSource::Absent, Function::Copy>;
  const auto of_channels = [&]<NormSource source>() {
    return map.activation == Activation::Relu ? decode_whole_kernel<Stored, source, Function::Relu>
           : map.activation == Activation::Silu
               ? decode_whole_kernel<Stored, source, Function::Silu>
               : decode_whole_kernel<Stored, source, Function::Copy>;
  };
  using Kernel = decltype(absent);
  if (!map.changes()) return absent;
  if (map.lowest != nullptr) {
    if (!map.by_rows || map.gelu != Gelu::None || !quads.by_quads || quads.channel_count < 32)
      return Kernel{nullptr};  // small maps
    return map.mean == nullptr
               ? decode_whole_kernel<Stored, NormSource::RowLevels, Function::Copy>
               : decode_whole_kernel<Stored, NormSource::LevelledRows, Function::Copy>;
  }
  if (map.mean == nullptr && map.gelu == Gelu::Erf)
    return decode_whole_kernel<Stored, NormSource::Absent, Function::Gelu>;
  if (map.mean == nullptr && map.gelu == Gelu::Tanh)
    return decode_whole_kernel<Stored, NormSource::Absent, Function::GeluTanh>;
  if (map.mean == nullptr || map.scales != nullptr || map.gelu != Gelu::None || !quads.by_quads)
    return Kernel{nullptr};
  if (!map.by_rows && 64 % quads.channel_count == 0)
    return of_channels.template operator()<NormSource::Repeated>();
  if (quads.channel_count < 32) return Kernel{nullptr};
  if (map.by_rows) return decode_whole_kernel<Stored, NormSource::Rows, Function::Copy>;
  return of_channels.template operator()<NormSource::Channels>();
}

}  // namespace

void decode_groups(const GroupCoding& coding, const void* codes, void* values, const CodecMap& map,
                   const ChannelOrder& order, cudaStream_t stream) {
  if (coding.count == 0) return;
  const TileWork work = work_of(coding, values);
  const auto parts = group_parts(coding, static_cast<const std::uint8_t*>(codes));
  const QuadMap quads = quad_map(map, order, coding.count);
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    std::int64_t done = 0;
    const auto kernel = whole_kernel<Stored>(quads);
    if (kernel != nullptr && work.aligned && work.rounding == Rounding::Dither)
      done = coding.count / kGroupTile;
    if (done > 0)
      kernel<<<blocks_for(done, kBlockTiles), kTileThreads, 0, stream>>>(parts, values, done, work,
                                                                         quads);
    if (done == work.tiles) return;
    const auto general = map.changes() ? decode_kernel<Stored, true> : decode_kernel<Stored, false>;
    general<<<blocks_for(work.tiles - done, kBlockTiles), kTileThreads, 0, stream>>>(
        parts, values, done, work, quads);
  });
  check_launch("decode_groups");
}

}  // namespace triaccel::kernels::cuda
