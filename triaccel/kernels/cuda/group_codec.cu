#include "triaccel/kernels/group_codec.h"

#include "triaccel/base/error.h"
#include "triaccel/kernels/codec_map_math.h"
#include "triaccel/kernels/cuda/fast_divide.cuh"
#include "triaccel/kernels/cuda/group_lane.cuh"
#include "triaccel/kernels/cuda/launch.cuh"

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

/// body<bits> for the run-time bits of a code: one branch for all lanes, and shifts by constants.
template <typename Body>
__device__ void with_bits(int bits, Body body) {
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

/// The codes of a lane without their extra bits, plus `kAbove` each.
template <int kBits, std::uint32_t kAbove>
__device__ void load_words(const std::uint32_t* from, std::uint32_t (&codes)[kGroupPlaces]) {
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
    codes[p] = (found & mask) | kAbove;
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

/// What a map makes of four neighbours.
struct QuadMap {
  CodecMap map;
  FastDivide channel_stride, channels, image_stride;
  std::int32_t channel_count;
  bool by_quads;  // channels are neighbours, and four of them always of one image

  /// A layer norm and GELU.
  template <Gelu form>
  __device__ void apply_rows(std::int64_t first, std::int64_t count, float (&quad)[4]) const {
    if (first >= count) return;
    const auto element = static_cast<std::int32_t>(first);
    if (map.mean != nullptr && by_quads) {
      const FastDivide::Result row = channels(element);  // remainder: the channel
      const float mean = map.mean[row.quotient], deviation = map.inverse_deviation[row.quotient];
      const float4 weight = *reinterpret_cast<const float4*>(map.weight + row.remainder);
      const float4 bias = *reinterpret_cast<const float4*>(map.bias + row.remainder);
      quad[0] = normalised(quad[0], mean, weight.x * deviation, bias.x);
      quad[1] = normalised(quad[1], mean, weight.y * deviation, bias.y);
      quad[2] = normalised(quad[2], mean, weight.z * deviation, bias.z);
      quad[3] = normalised(quad[3], mean, weight.w * deviation, bias.w);
    } else if (map.mean != nullptr) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (first + j >= count) break;
        const FastDivide::Result row = channels(element + j);
        const NormCoefficients norm = codec_row_norm(map, row.quotient, row.remainder);
        quad[j] = normalised(quad[j], norm.mean, norm.scale, norm.bias);
      }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) quad[j] = gelu<form>(quad[j]);
  }

  /// The norms of the quads that a lane has in even and in odd rows, where channels repeat after
  /// two rows: what would otherwise be read for every quad is more than the quad itself.
  __device__ void load_rows(const Lane& at, std::int64_t count,
                            NormCoefficients (&norms)[2][4]) const {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const std::int64_t first = at.row_begin(row);
      const auto element = static_cast<std::int32_t>(first < count ? first : 0);
      load_norms(channels(element).remainder, norms[row]);
    }
  }

  /// With norms that load_rows has read.
  __device__ void apply_repeated(const NormCoefficients (&norms)[4], std::int64_t first,
                                 std::int64_t count, float (&quad)[4]) const {
    if (first < count) apply_quad(norms, static_cast<std::int32_t>(first), gate_of(first), quad);
  }

  __device__ void apply(std::int64_t first, std::int64_t count, float (&quad)[4]) const {
    if (first >= count) return;
    const std::uint32_t open = gate_of(first);
    const auto element = static_cast<std::int32_t>(first);
    if (by_quads) {
      NormCoefficients norms[4];
      load_norms(channels(element).remainder, norms);
      return apply_quad(norms, element, open, quad);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (first + j >= count) break;
      const std::int32_t channel = channels(channel_stride(element + j).quotient).remainder;
      const float scale =
          map.scales == nullptr
              ? 1.0f
              : map.scales[std::int64_t{image_stride(element + j).quotient} * channel_count +
                           channel];
      quad[j] = one(quad[j], codec_norm(map, channel), open >> j, scale);
    }
  }

 private:
  __device__ std::uint32_t gate_of(std::int64_t first) const {
    return map.activation == Activation::Relu ? map.gate[first / 32] >> (first % 32) : ~0u;
  }

  __device__ void apply_quad(const NormCoefficients (&norms)[4], std::int32_t element,
                             std::uint32_t open, float (&quad)[4]) const {
    const float4 scales =
        map.scales == nullptr
            ? make_float4(1, 1, 1, 1)
            : *reinterpret_cast<const float4*>(
                  map.scales + std::int64_t{image_stride(element).quotient} * channel_count +
                  channels(element).remainder);
    const float by[4] = {scales.x, scales.y, scales.z, scales.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) quad[j] = one(quad[j], norms[j], open >> j, by[j]);
  }

  __device__ float one(float x, const NormCoefficients& norm, std::uint32_t open,
                       float scale) const {
    const float value = codec_mapped(x, norm, map.activation);
    return (open & 1u) != 0 ? value * scale : 0.0f;
  }

  __device__ void load_norms(std::int32_t channel, NormCoefficients (&norms)[4]) const {
    if (map.mean == nullptr) return;
    const auto four = [channel](const float* row) {
      return *reinterpret_cast<const float4*>(row + channel);
    };
    const float4 mean = four(map.mean), deviation = four(map.inverse_deviation);
    const float4 weight = four(map.weight), bias = four(map.bias);
    norms[0] = {mean.x, weight.x * deviation.x, bias.x};
    norms[1] = {mean.y, weight.y * deviation.y, bias.y};
    norms[2] = {mean.z, weight.z * deviation.z, bias.z};
    norms[3] = {mean.w, weight.w * deviation.w, bias.w};
  }
};

QuadMap quad_map(const CodecMap& map, const ChannelOrder& order, std::int64_t count) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  ensure(!map.changes() || count < most, "the elements of a mapped tensor fit 31 bits");
  const auto aligned = [](const float* row) {
    return reinterpret_cast<std::uintptr_t>(row) % 16 == 0;
  };
  return {.map = map,
          .channel_stride = FastDivide(order.channel_stride),
          .channels = FastDivide(order.channels),
          .image_stride = FastDivide(order.image_stride),
          .channel_count = static_cast<std::int32_t>(order.channels),
          .by_quads = order.channel_stride == 1 && order.channels % 4 == 0 && count % 4 == 0 &&
                      aligned(map.mean) && aligned(map.inverse_deviation) && aligned(map.weight) &&
                      aligned(map.bias) && aligned(map.scales)};
}

/// What is done to elements on their way to memory.
enum class Mapping { None, Channels, RepeatedChannels, Rows, RowsGelu, RowsGeluTanh };

Mapping mapping_of(const QuadMap& quads) {
  const CodecMap& map = quads.map;
  if (map.gelu == Gelu::Erf) return Mapping::RowsGelu;
  if (map.gelu == Gelu::Tanh) return Mapping::RowsGeluTanh;
  if (map.by_rows) return Mapping::Rows;
  if (!map.changes()) return Mapping::None;
  const bool repeats = quads.by_quads && map.mean != nullptr && 64 % quads.channel_count == 0;
  return repeats ? Mapping::RepeatedChannels : Mapping::Channels;
}

/// Codes of up to seven bits come with 0x4b00 above them, which makes floats of 2^23 and more of a
/// code and its sixteen bits.
template <typename Stored, Mapping mapping, bool kEightBits>
__device__ void store_values(const std::uint32_t (&codes)[kGroupPlaces], GroupRange range,
                             const TileWork& work, const QuadMap& map, const Lane& at,
                             void* values) {
  auto* to = static_cast<typename Stored::Word*>(values);
  const bool whole = work.aligned && (at.tile + 1) * kGroupTile <= work.count;
  GroupValues kinds[kGroupPlaceKinds];
#pragma unroll
  for (int kind = 0; kind < kGroupPlaceKinds; ++kind)
    kinds[kind] = group_values(range, work.widths.kinds[kind].inverse, work.rounding);
  [[maybe_unused]] NormCoefficients norms[2][4];
  if constexpr (mapping == Mapping::RepeatedChannels) map.load_rows(at, work.count, norms);
  const LaneBits lane_bits(work, at);
#pragma unroll
  for (int call = 0; call < kCallsOfLane; ++call) {
    RandomWords bits = {{kGroupHalfBits, kGroupHalfBits, kGroupHalfBits, kGroupHalfBits}};
    if (work.rounding == Rounding::Dither) {
      bits = lane_bits(call);
#pragma unroll
      for (int i = 0; i < 4; ++i) bits.words[i] = ~bits.words[i];
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float quad[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int i = row * 4 + j, p = call * 8 + i, kind = group_place_kind(i);
        const float joined = bits_above_2_to_23(bits.words[i / 2], i % 2, codes[p]);
        const float position =
            kEightBits ? static_cast<float>(static_cast<int>(__float_as_uint(joined)) - 32768)
                       : joined - (0x1.0p23f + 32768.0f);
        quad[j] = kinds[kind].low + kinds[kind].step * position;
      }
      const std::int64_t element = at.row_begin(call * 2 + row);
      if constexpr (mapping == Mapping::Channels) map.apply(element, work.count, quad);
      if constexpr (mapping == Mapping::RepeatedChannels)
        map.apply_repeated(norms[row], element, work.count, quad);
      if constexpr (mapping == Mapping::Rows)
        map.template apply_rows<Gelu::None>(element, work.count, quad);
      if constexpr (mapping == Mapping::RowsGelu)
        map.template apply_rows<Gelu::Erf>(element, work.count, quad);
      if constexpr (mapping == Mapping::RowsGeluTanh)
        map.template apply_rows<Gelu::Tanh>(element, work.count, quad);
      if (whole) {
        store_quad<Stored>(to + element, quad);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (element + j < work.count) to[element + j] = Stored::word(quad[j]);
      }
    }
  }
}

template <typename Stored, Mapping mapping>
__global__ void __launch_bounds__(kTileThreads)
    decode_kernel(const GroupParts<const std::uint8_t> parts, void* values,
                  const __grid_constant__ TileWork work, const __grid_constant__ QuadMap map) {
  const Lane at = this_lane();
  if (at.tile >= work.tiles) return;
  const std::int64_t lane = at.tile * kGroupLanes + at.lane;
  const GroupRange range = read_group_range(
      reinterpret_cast<const std::uint32_t*>(parts.ranges)[at.tile * kGroupsOfTile + at.lane / 8]);
  std::uint32_t codes[kGroupPlaces];
  const auto join_extras = [&](std::uint32_t above) {
    if (work.widths.rest & 4)
      join_extra<1>(reinterpret_cast<const std::uint16_t*>(parts.extra4)[lane], above, codes);
    if (work.widths.rest & 2) join_extra<2>(parts.extra2[lane], above, codes);
    if (work.widths.rest & 1)
      join_extra<3>(parts.extra1[lane / 2] >> (at.lane % 2 * 4), above, codes);
  };
  const auto words = [&](int bits) {
    return reinterpret_cast<const std::uint32_t*>(parts.words) + at.tile * bits * kGroupLanes +
           at.lane;
  };
  if (work.widths.bits < 7) {
    with_bits(work.widths.bits, [&]<int kBits>() {
      if constexpr (kBits < 7) load_words<kBits, 0x4b00u>(words(kBits), codes);
    });
    join_extras(0x4b00u);
    store_values<Stored, mapping, false>(codes, range, work, map, at, values);
  } else {
    with_bits(work.widths.bits, [&]<int kBits>() {
      if constexpr (kBits >= 7) load_words<kBits, 0u>(words(kBits), codes);
    });
    join_extras(0u);
    store_values<Stored, mapping, true>(codes, range, work, map, at, values);
  }
}

TileWork work_of(const GroupCoding& coding, const void* values) {
  return {.count = coding.count,
          .tiles = group_tiles(coding.count),
          .aligned = reinterpret_cast<std::uintptr_t>(values) % 16 == 0,
          .rounding = coding.rounding,
          .draws = DitherDraws(coding.key),
          .widths = group_widths(coding.eighths),
          .above_16_bits = 0x4b00u};
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

void decode_groups(const GroupCoding& coding, const void* codes, void* values, const CodecMap& map,
                   const ChannelOrder& order, cudaStream_t stream) {
  if (coding.count == 0) return;
  const TileWork work = work_of(coding, values);
  const auto parts = group_parts(coding, static_cast<const std::uint8_t*>(codes));
  const QuadMap quads = quad_map(map, order, coding.count);
  const Mapping mapping = mapping_of(quads);
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    const auto kernel = [&] {
      switch (mapping) {
        case Mapping::None:
          return decode_kernel<Stored, Mapping::None>;
        case Mapping::Channels:
          return decode_kernel<Stored, Mapping::Channels>;
        case Mapping::RepeatedChannels:
          return decode_kernel<Stored, Mapping::RepeatedChannels>;
        case Mapping::Rows:
          return decode_kernel<Stored, Mapping::Rows>;
        case Mapping::RowsGelu:
          return decode_kernel<Stored, Mapping::RowsGelu>;
        case Mapping::RowsGeluTanh:
          break;
      }
      return decode_kernel<Stored, Mapping::RowsGeluTanh>;
    }();
    kernel<<<blocks_for(work.tiles, kBlockTiles), kTileThreads, 0, stream>>>(parts, values, work,
                                                                             quads);
  });
  check_launch("decode_groups");
}

}  // namespace triaccel::kernels::cuda
