#include "triaccel/kernels/compression/groups/group_codec.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/compression/codec_map_math.h"
#include "triaccel/kernels/compression/groups/group_codec_math.h"

namespace triaccel::kernels::cpu {
namespace {

static_assert(std::endian::native == std::endian::little,
              "quantized values are stored little-endian");

/// Below so many tiles another thread costs more than it saves.
constexpr std::int64_t kTilesAlone = 16;

/// A tile in the order of its elements, [group][row][lane of the group][place of the row].
struct Tile {
  alignas(64) float values[kGroupTile];
  alignas(64) std::uint8_t codes[kGroupTile];
  alignas(64) std::uint32_t bits[kGroupRows][2 * kGroupLanes];  // random, two elements to a word
  alignas(64) std::uint32_t words[8 + 1][kGroupLanes];          // nothing is ever in the last
  alignas(64) std::uint32_t extra4[kGroupLanes];
  alignas(64) std::uint32_t extra2[kGroupLanes];
  alignas(64) std::uint32_t extra1[kGroupLanes];

  void clear_bits() {
    for (auto& row : bits) std::fill(std::begin(row), std::end(row), kGroupHalfBits);
  }

  const std::uint16_t* bits_of(int group, int row) const {
    return reinterpret_cast<const std::uint16_t*>(bits[row]) + group * 32;
  }
};

/// NaNs lie outside the infinities in the order of whole numbers, and loops over these vectorise.
TRIACCEL_WIDE_VECTORS
GroupRange range_of(const float* __restrict values) {
  std::int32_t least = INT32_MAX, largest = INT32_MIN;
#pragma omp simd reduction(min : least) reduction(max : largest)
  for (int i = 0; i < kGroupElements; ++i) {
    const auto bits = static_cast<std::int32_t>(bits_of_float(values[i]));
    const std::int32_t ordered = bits ^ ((bits >> 31) & 0x7fffffff);
    least = ordered < least ? ordered : least;
    largest = ordered > largest ? ordered : largest;
  }
  const auto value = [](std::int32_t ordered) {
    return float_from_bits(static_cast<std::uint32_t>(ordered ^ ((ordered >> 31) & 0x7fffffff)));
  };
  return group_range(value(least), value(largest));
}

/// Philox for all lanes side by side.
TRIACCEL_WIDE_VECTORS
void draw(const DitherKey& key, std::int64_t tile, std::uint32_t (*__restrict bits)[64]) {
  const DitherDraws draws(key);
  const std::uint64_t high = draws.high();
  for (int call = 0; call < kGroupPlaces / 8; ++call) {
    std::uint32_t* __restrict first_row = bits[2 * call];
    std::uint32_t* __restrict second_row = bits[2 * call + 1];
#pragma omp simd
    for (int lane = 0; lane < kGroupLanes; ++lane) {
      const auto number = static_cast<std::uint64_t>((tile * kGroupLanes + lane) * 4 + call);
      const RandomWords drawn = draws.words(number, high);
      first_row[2 * lane] = drawn.words[0];
      first_row[2 * lane + 1] = drawn.words[1];
      second_row[2 * lane] = drawn.words[2];
      second_row[2 * lane + 1] = drawn.words[3];
    }
  }
}

/// A number for every element of a row, in even and in odd rows.
struct RowFactors {
  alignas(64) float rows[2][32];

  template <typename OfKind>
  explicit RowFactors(OfKind of_kind) {
    const float quads[2][4] = {{of_kind(0), of_kind(1), of_kind(2), of_kind(1)},
                               {of_kind(3), of_kind(1), of_kind(2), of_kind(1)}};
    for (int row = 0; row < 2; ++row)
      for (int i = 0; i < 32; ++i) rows[row][i] = quads[row][i % 4];
  }
};
static_assert(group_place_kind(0) == 0 && group_place_kind(1) == 1 && group_place_kind(2) == 2 &&
              group_place_kind(3) == 1 && group_place_kind(4) == 3 && group_place_kind(5) == 1 &&
              group_place_kind(6) == 2 && group_place_kind(7) == 1);

TRIACCEL_WIDE_VECTORS
void code_row(const float* __restrict values, const std::uint16_t* __restrict bits, float low,
              const float* __restrict scales, const float* __restrict limits, float shift,
              std::uint8_t* __restrict codes) {
#pragma omp simd
  for (int i = 0; i < 32; ++i) {
    const float offset = static_cast<float>(static_cast<std::int32_t>(bits[i])) + shift;
    const float position = group_position(values[i], low, scales[i], offset, limits[i]);
    codes[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(position * 0x1.0p-16f));
  }
}

TRIACCEL_WIDE_VECTORS
void value_row(const std::uint8_t* __restrict codes, const std::uint16_t* __restrict bits,
               std::uint32_t flip, const float* __restrict lows, const float* __restrict steps,
               float* __restrict values) {
#pragma omp simd
  for (int i = 0; i < 32; ++i) {
    const std::uint32_t joined = std::uint32_t{codes[i]} << 16 | (bits[i] ^ flip);
    const auto position = static_cast<float>(static_cast<std::int32_t>(joined) - 32768);
    values[i] = lows[i] + steps[i] * position;
  }
}

/// Bytes of a quad of codes that have an extra bit, in even and in odd rows.
std::uint32_t extra_bytes(int rest, int row) {
  return (rest & 4 ? 0xff00ff00u : 0u) | (rest & 2 ? 0x00ff0000u : 0u) |
         ((rest & 1) != 0 && row % 2 == 1 ? 0x000000ffu : 0u);
}

/// Four codes of a lane lie in four bytes; `bits` of each go to the lane's words.
TRIACCEL_WIDE_VECTORS
void pack(Tile& tile, int bits, int rest) {
  std::memset(tile.words, 0, sizeof tile.words);
  std::memset(tile.extra4, 0, sizeof tile.extra4);
  std::memset(tile.extra2, 0, sizeof tile.extra2);
  std::memset(tile.extra1, 0, sizeof tile.extra1);
  const std::uint32_t mask = (1u << bits) - 1;
  for (int group = 0; group < kGroupsOfTile; ++group)
    for (int row = 0; row < kGroupRows; ++row) {
      std::uint32_t quads[8];
      std::memcpy(quads, tile.codes + (group * kGroupRows + row) * 32, sizeof quads);
      const std::uint32_t extra = extra_bytes(rest, row);
      const int place = row * 4 * bits, shift = place % 32, first = group * 8;
      std::uint32_t* __restrict low_words = tile.words[place / 32] + first;
      std::uint32_t* __restrict high_words = tile.words[place / 32 + 1] + first;
#pragma omp simd
      for (int lane = 0; lane < 8; ++lane) {
        std::uint32_t quad = quads[lane];
        tile.extra4[first + lane] |= ((quad >> 8 & 1u) | (quad >> 23 & 2u)) << 2 * row;
        tile.extra2[first + lane] |= (quad >> 16 & 1u) << row;
        tile.extra1[first + lane] |= (quad & static_cast<std::uint32_t>(row % 2)) << row / 2;
        quad = (quad & ~extra) | (quad >> 1 & extra & 0x7f7f7f7fu);
        const std::uint32_t fields = (quad & mask) | (quad >> 8 & mask) << bits |
                                     (quad >> 16 & mask) << 2 * bits | (quad >> 24) << 3 * bits;
        low_words[lane] |= fields << shift;
        high_words[lane] |= fields >> 1 >> (31 - shift);
      }
    }
}

TRIACCEL_WIDE_VECTORS
void unpack(Tile& tile, int bits, int rest) {
  const std::uint32_t mask = (1u << bits) - 1;
  for (int group = 0; group < kGroupsOfTile; ++group)
    for (int row = 0; row < kGroupRows; ++row) {
      std::uint32_t quads[8];
      const std::uint32_t extra = extra_bytes(rest, row);
      const int place = row * 4 * bits, shift = place % 32, first = group * 8;
      const std::uint32_t* __restrict low_words = tile.words[place / 32] + first;
      const std::uint32_t* __restrict high_words = tile.words[place / 32 + 1] + first;
#pragma omp simd
      for (int lane = 0; lane < 8; ++lane) {
        const std::uint32_t fields = low_words[lane] >> shift | high_words[lane] << 1
                                                                                 << (31 - shift);
        const std::uint32_t quad = (fields & mask) | (fields >> bits & mask) << 8 |
                                   (fields >> 2 * bits & mask) << 16 |
                                   (fields >> 3 * bits & mask) << 24;
        const std::uint32_t odd = tile.extra4[first + lane] >> 2 * row;
        const std::uint32_t joined = (odd & 1u) << 8 | (odd & 2u) << 23 |
                                     (tile.extra2[first + lane] >> row & 1u) << 16 |
                                     (tile.extra1[first + lane] >> row / 2 & 1u);
        quads[lane] = (quad & ~extra) | (quad << 1 & extra & 0xfefefefeu) | (joined & extra);
      }
      std::memcpy(tile.codes + (group * kGroupRows + row) * 32, quads, sizeof quads);
    }
}

TRIACCEL_WIDE_VECTORS
void widen(FloatType type, const void* from, std::int64_t first, std::int64_t count,
           float* __restrict to) {
  with_stored_type(type, [&]<typename Stored>(Stored) {
    const auto* words = static_cast<const typename Stored::Word*>(from) + first;
    for (std::int64_t i = 0; i < count; ++i) to[i] = Stored::value(words[i]);
  });
}

TRIACCEL_WIDE_VECTORS
void narrow(const float* __restrict from, std::int64_t first, std::int64_t count, FloatType type,
            void* to) {
  with_stored_type(type, [&]<typename Stored>(Stored) {
    auto* words = static_cast<typename Stored::Word*>(to) + first;
    for (std::int64_t i = 0; i < count; ++i) words[i] = Stored::word(from[i]);
  });
}

/// A layer norm of elements of one row whose channels follow each other.
TRIACCEL_WIDE_VECTORS
void norm_row(const CodecMap& map, std::int64_t row, std::int64_t channel, std::int64_t count,
              float* __restrict values) {
  const float mean = map.mean[row], inverse_deviation = map.inverse_deviation[row];
  const float *weight = map.weight + channel, *bias = map.bias + channel;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = normalised(values[i], mean, weight[i] * inverse_deviation, bias[i]);
}

/// Elements of one row as they were before it was levelled.
TRIACCEL_WIDE_VECTORS
void unlevel_row(const CodecMap& map, std::int64_t row, std::int64_t count,
                 float* __restrict values) {
  const float lowest = map.lowest[row], range = map.range[row];
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) values[i] = unlevelled(values[i], lowest, range);
}

template <Gelu form>
TRIACCEL_WIDE_VECTORS void gelu_run(std::int64_t count, float* __restrict values) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) values[i] = gelu<form>(values[i]);
}

/// What `map` makes of elements whose channels follow each other from `channel` on, or are all
/// that one; `scales` are its image's. The gate, what goes by rows and GELU are not applied.
template <bool follow>
TRIACCEL_WIDE_VECTORS void map_run(const CodecMap& map, std::int64_t channel, const float* scales,
                                   std::int64_t count, float* __restrict values) {
  if (map.lowest != nullptr && !map.by_rows) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t c = follow ? channel + i : channel;
      values[i] = unlevelled(values[i], map.lowest[c], map.range[c]);
    }
  }
  if (map.mean != nullptr && !map.by_rows) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t c = follow ? channel + i : channel;
      values[i] =
          normalised(values[i], map.mean[c], map.weight[c] * map.inverse_deviation[c], map.bias[c]);
    }
  }
  if (map.activation == Activation::Silu) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) values[i] = silu(values[i]);
  }
  if (scales != nullptr)
    for (std::int64_t i = 0; i < count; ++i) values[i] *= scales[follow ? channel + i : channel];
}

/// What `map` makes of elements [begin, end) of a tensor, in place.
void map_values(const CodecMap& map, const ChannelOrder& order, std::int64_t begin,
                std::int64_t end, float* values) {
  const bool follow = order.channel_stride == 1;
  const std::int64_t run = follow ? order.channels : order.channel_stride;
  for (std::int64_t first = begin; first < end;) {
    const std::int64_t last = std::min(end, first / run * run + run);
    const std::int64_t channel = first / order.channel_stride % order.channels;
    const float* scales =
        map.scales == nullptr ? nullptr : map.scales + first / order.image_stride * order.channels;
    const std::int64_t row = first / order.image_stride;
    if (map.by_rows && map.lowest != nullptr)
      unlevel_row(map, row, last - first, values + (first - begin));
    if (map.by_rows && map.mean != nullptr)
      norm_row(map, row, channel, last - first, values + (first - begin));
    if (follow)
      map_run<true>(map, channel, scales, last - first, values + (first - begin));
    else
      map_run<false>(map, channel, scales, last - first, values + (first - begin));
    first = last;
  }
  if (map.gelu == Gelu::Erf) gelu_run<Gelu::Erf>(end - begin, values);
  if (map.gelu == Gelu::Tanh) gelu_run<Gelu::Tanh>(end - begin, values);
  if (map.gate == nullptr) return;
  for (std::int64_t i = begin; i < end; ++i)
    if (!gate_opens(map.gate, i)) values[i - begin] = 0.0f;
}

void fill_up(float* values, std::int64_t count) {
  for (std::int64_t group = 0; group < kGroupTile; group += kGroupElements) {
    const std::int64_t begin = std::max(group, count), end = group + kGroupElements;
    if (begin < end) std::fill(values + begin, values + end, begin > group ? values[group] : 0.0f);
  }
}

void load_extras(const GroupParts<const std::uint8_t>& parts, int rest, std::int64_t number,
                 Tile& tile) {
  for (int lane = 0; lane < kGroupLanes; ++lane) {
    const std::int64_t at = number * kGroupLanes + lane;
    std::uint16_t odd = 0;
    if (rest & 4) std::memcpy(&odd, parts.extra4 + 2 * at, 2);
    tile.extra4[lane] = odd;
    tile.extra2[lane] = rest & 2 ? parts.extra2[at] : 0u;
    tile.extra1[lane] = rest & 1 ? parts.extra1[at / 2] >> lane % 2 * 4 & 15 : 0u;
  }
}

void store_extras(const Tile& tile, int rest, std::int64_t number,
                  const GroupParts<std::uint8_t>& parts) {
  for (int lane = 0; lane < kGroupLanes; ++lane) {
    const std::int64_t at = number * kGroupLanes + lane;
    const auto odd = static_cast<std::uint16_t>(tile.extra4[lane]);
    if (rest & 4) std::memcpy(parts.extra4 + 2 * at, &odd, 2);
    if (rest & 2) parts.extra2[at] = static_cast<std::uint8_t>(tile.extra2[lane]);
    if ((rest & 1) != 0 && lane % 2 == 0)
      parts.extra1[at / 2] =
          static_cast<std::uint8_t>(tile.extra1[lane] | tile.extra1[lane + 1] << 4);
  }
}

}  // namespace

void encode_groups(const GroupCoding& coding, const void* values, void* codes,
                   std::int32_t* not_finite) {
  const GroupWidths widths = group_widths(coding.eighths);
  const auto parts = group_parts(coding, static_cast<std::uint8_t*>(codes));
  const std::int64_t tiles = group_tiles(coding.count);
  const std::int64_t word_bytes = widths.bits * kGroupLanes * 4;
  const RowFactors limits([&](int kind) { return widths.kinds[kind].limit; });
  std::int64_t damaged = 0;
#pragma omp parallel if (tiles > kTilesAlone) reduction(+ : damaged)
  {
    Tile tile;
    if (coding.rounding == Rounding::Nearest) tile.clear_bits();
#pragma omp for schedule(static)
    for (std::int64_t number = 0; number < tiles; ++number) {
      const std::int64_t first = number * kGroupTile;
      const std::int64_t count = std::min(kGroupTile, coding.count - first);
      const float* from = static_cast<const float*>(values) + first;
      if (coding.type != FloatType::F32 || count < kGroupTile) {
        widen(coding.type, values, first, count, tile.values);
        fill_up(tile.values, count);
        from = tile.values;
      }
      if (coding.rounding != Rounding::Nearest) draw(coding.key, number, tile.bits);
      for (int group = 0; group < kGroupsOfTile; ++group) {
        const GroupRange range = range_of(from + group * kGroupElements);
        const std::uint32_t stored = stored_group_range(range);
        std::memcpy(parts.ranges + (number * kGroupsOfTile + group) * 4, &stored, 4);
        damaged += range.low != range.low;
        const float scale = group_scale(range);
        const RowFactors scales([&](int kind) { return scale * widths.kinds[kind].top; });
        for (int row = 0; row < kGroupRows; ++row) {
          const int at = (group * kGroupRows + row) * 32;
          code_row(from + at, tile.bits_of(group, row), range.low, scales.rows[row % 2],
                   limits.rows[row % 2], group_offset_shift(coding.rounding), tile.codes + at);
        }
      }
      pack(tile, widths.bits, widths.rest);
      std::memcpy(parts.words + number * word_bytes, tile.words,
                  static_cast<std::size_t>(word_bytes));
      if (widths.rest != 0) store_extras(tile, widths.rest, number, parts);
    }
  }
  if (not_finite != nullptr) *not_finite += static_cast<std::int32_t>(damaged);
}

void decode_groups(const GroupCoding& coding, const void* codes, void* values, const CodecMap& map,
                   const ChannelOrder& order) {
  const GroupWidths widths = group_widths(coding.eighths);
  const auto parts = group_parts(coding, static_cast<const std::uint8_t*>(codes));
  const std::int64_t tiles = group_tiles(coding.count);
  const std::int64_t word_bytes = widths.bits * kGroupLanes * 4;
  const bool subtracts = coding.rounding == Rounding::Dither;
#pragma omp parallel if (tiles > kTilesAlone)
  {
    Tile tile = {};
    if (!subtracts) tile.clear_bits();
#pragma omp for schedule(static)
    for (std::int64_t number = 0; number < tiles; ++number) {
      std::memcpy(tile.words, parts.words + number * word_bytes,
                  static_cast<std::size_t>(word_bytes));
      if (widths.rest != 0) load_extras(parts, widths.rest, number, tile);
      unpack(tile, widths.bits, widths.rest);
      if (subtracts) draw(coding.key, number, tile.bits);
      const std::int64_t first = number * kGroupTile;
      const std::int64_t count = std::min(kGroupTile, coding.count - first);
      const bool in_place = coding.type == FloatType::F32 && count == kGroupTile;
      float* to = in_place ? static_cast<float*>(values) + first : tile.values;
      for (int group = 0; group < kGroupsOfTile; ++group) {
        std::uint32_t stored = 0;
        std::memcpy(&stored, parts.ranges + (number * kGroupsOfTile + group) * 4, 4);
        const GroupRange range = read_group_range(stored);
        const auto of_kind = [&](int kind) {
          return group_values(range, widths.kinds[kind].inverse, coding.rounding);
        };
        const RowFactors lows([&](int kind) { return of_kind(kind).low; });
        const RowFactors steps([&](int kind) { return of_kind(kind).step; });
        for (int row = 0; row < kGroupRows; ++row) {
          const int at = (group * kGroupRows + row) * 32;
          value_row(tile.codes + at, tile.bits_of(group, row), subtracts ? 0xffffu : 0u,
                    lows.rows[row % 2], steps.rows[row % 2], to + at);
        }
      }
      if (map.changes()) map_values(map, order, first, first + count, to);
      if (!in_place) narrow(tile.values, first, count, coding.type, values);
    }
  }
}

}  // namespace triaccel::kernels::cpu
