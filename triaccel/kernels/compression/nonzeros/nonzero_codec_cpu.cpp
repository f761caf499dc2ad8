#include <algorithm>
#include <bit>
#include <cstring>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/host_device.h"
#include "triaccel/kernels/compression/nonzeros/nonzero_codec_math.h"

namespace triaccel::kernels::cpu {
namespace {

static_assert(std::endian::native == std::endian::little, "words are taken apart in memory");

constexpr std::int64_t kTilesAlone = 16;  // below, another thread costs more than it saves
constexpr int kMaxRoom = kMaxNonZeroEighths * 16;
constexpr int kSlack = 8;  // bytes that bits are moved in at once

/// A tile on its way; lies on a thread's stack.
struct Tile {
  alignas(64) float values[kNonZeroTile];
  alignas(64) std::uint32_t words[kNonZeroTile / 2];  // random, sixteen bits per element
  alignas(64) std::uint32_t codes[kNonZeroTile];
  alignas(64) std::uint32_t quads[kNonZeroQuads];  // the codes of four neighbours
  alignas(64) std::uint32_t mask[kNonZeroWords];
  alignas(64) std::uint8_t fours[kNonZeroQuads];  // the mask, four bits each
  alignas(64) unsigned char room[kMaxRoom + kSlack];

  const std::uint16_t* halves() const { return reinterpret_cast<const std::uint16_t*>(words); }
};

/// Bits of codes: `narrow`, and one more for those of the first quads.
struct Widths {
  std::uint32_t narrow;
  int wide_quads;
};

/// Bits set in four; the baseline has no instruction for it.
constexpr std::uint8_t kCounts[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};

TRIACCEL_WIDE_VECTORS
void split_mask(const std::uint32_t* __restrict mask, std::uint8_t* __restrict fours) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(mask);
  for (int i = 0; i < kNonZeroWords * 4; ++i) {
    fours[2 * i] = bytes[i] & 15u;
    fours[2 * i + 1] = static_cast<std::uint8_t>(bytes[i] >> 4);
  }
}

TRIACCEL_WIDE_VECTORS
Widths widths_of(const std::uint32_t* mask, const std::uint8_t* fours, int eighths) {
  int count = 0;
  for (int word = 0; word < kNonZeroWords; ++word) count += std::popcount(mask[word]);
  const int room = eighths * kNonZeroTile / 8;
  const int narrow = count == 0 ? kWidestCode : std::min(kWidestCode, room / count);
  int spare = narrow == kWidestCode ? 0 : room - count * narrow;
  int quad = 0;
  for (; quad < kNonZeroQuads; quad += 8) {
    const int next = std::popcount(mask[quad / 8]);
    if (next > spare) break;
    spare -= next;
  }
  for (; quad < kNonZeroQuads && kCounts[fours[quad]] <= spare; ++quad)
    spare -= kCounts[fours[quad]];
  return {static_cast<std::uint32_t>(narrow), quad};
}

/// Calls body(first element, end, group, width) for runs of elements that share a grid.
template <typename Body>
void for_each_run(Widths widths, Body body) {
  for (int group = 0; group < kNonZeroGroups; ++group) {
    const int begin = group * kNonZeroGroup, end = begin + kNonZeroGroup;
    const int middle = std::clamp(widths.wide_quads * 4, begin, end);
    if (begin < middle) body(begin, middle, group, widths.narrow + 1);
    if (middle < end) body(middle, end, group, widths.narrow);
  }
}

template <typename Stored>
TRIACCEL_WIDE_VECTORS void load(const typename Stored::Word* from, std::int64_t count,
                                float* __restrict values) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = Stored::value(from[i]);
  for (std::int64_t i = count; i < kNonZeroTile; ++i) values[i] = 0.0f;
}

/// A tile's values as floats: where they are, or in `scratch`.
const float* floats_of(const NonZeroCoding& coding, const void* values, std::int64_t first,
                       std::int64_t count, float* scratch) {
  if (coding.type == FloatType::F32 && count == kNonZeroTile)
    return static_cast<const float*>(values) + first;
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    load<Stored>(static_cast<const typename Stored::Word*>(values) + first, count, scratch);
  });
  return scratch;
}

/// Zero where the mask has no bit.
template <typename Stored>
TRIACCEL_WIDE_VECTORS void keep_masked(const float* values, const std::uint32_t* __restrict mask,
                                       std::int64_t count, typename Stored::Word* to) {
  const auto kept = [&](std::uint32_t bits, std::int64_t i) {
    const float value = values[i];
    return Stored::word(
        float_from_bits(chosen((bits & 1u << i % 32) != 0, bits_of_float(value), 0u)));
  };
  for (std::int64_t word = 0; word < count / 32; ++word) {
    const std::uint32_t bits = mask[word];
#pragma omp simd
    for (int i = 0; i < 32; ++i) to[word * 32 + i] = kept(bits, word * 32 + i);
  }
  for (std::int64_t i = count / 32 * 32; i < count; ++i) to[i] = kept(mask[i / 32], i);
}

TRIACCEL_WIDE_VECTORS
void find_nonzeros(const float* __restrict values, std::uint32_t* __restrict mask) {
  for (int word = 0; word < kNonZeroWords; ++word) {
    std::uint32_t bits = 0;
#pragma omp simd reduction(| : bits)
    for (int i = 0; i < 32; ++i) bits |= chosen(values[word * 32 + i] != 0.0f, 1u << i, 0u);
    mask[word] = bits;
  }
}

TRIACCEL_WIDE_VECTORS
void find_ranges(const float* __restrict values, std::uint16_t* __restrict ranges) {
  for (int group = 0; group < kNonZeroGroups; ++group) {
    std::int32_t largest = 0;
    std::uint32_t furthest = 0;
#pragma omp simd reduction(max : largest, furthest)
    for (int i = 0; i < kNonZeroGroup; ++i) {
      const std::uint32_t bits = bits_of_float(values[group * kNonZeroGroup + i]);
      largest = std::max(largest, static_cast<std::int32_t>(bits));
      furthest = std::max(furthest, bits);
    }
    ranges[group] = static_cast<std::uint16_t>(nonzero_range(largest, furthest));
  }
}

TRIACCEL_WIDE_VECTORS
void draw(const DitherKey& key, std::int64_t tile, std::uint32_t* __restrict words) {
  constexpr int row_words = kNonZeroGroup / 2;
  const DitherDraws draws(key);
  const std::uint64_t high = draws.high();
  for (int four = 0; four < kNonZeroGroups / kCallGroups; ++four) {
    std::uint32_t* to = words + kCallGroups * four * row_words;
#pragma omp simd
    for (int quad = 0; quad < kNonZeroGroup / 4; ++quad) {
      const OffsetWords drawn = offset_words(draws.words(dither_call(tile, four, quad), high));
      for (int group = 0; group < kCallGroups; ++group) {
        to[group * row_words + 2 * quad] = drawn.words[2 * group];
        to[group * row_words + 2 * quad + 1] = drawn.words[2 * group + 1];
      }
    }
  }
}

TRIACCEL_WIDE_VECTORS
void find_codes(const float* __restrict values, const std::uint16_t* __restrict halves, int count,
                CodeGrid grid, float factor, std::uint32_t* __restrict codes) {
#pragma omp simd
  for (int i = 0; i < count; ++i) {
    const float offset = factor * static_cast<float>(halves[i]) + grid.zero;
    const float place = values[i] * grid.scale + offset;
    codes[i] = static_cast<std::uint32_t>(static_cast<std::int32_t>(place)) >> 16;
  }
}

TRIACCEL_WIDE_VECTORS
void find_values(const std::uint32_t* __restrict codes, const std::uint16_t* __restrict halves,
                 int count, ValueGrid grid, float* __restrict values) {
#pragma omp simd
  for (int i = 0; i < count; ++i)
    values[i] = value_of(codes[i] << 16 | (halves[i] ^ 0xffffu), grid);
}

/// The codes of each quad's elements that have a bit, one behind the other.
TRIACCEL_WIDE_VECTORS
void join_quads(const std::uint32_t* __restrict codes, const std::uint8_t* __restrict fours,
                int count, std::uint32_t width, std::uint32_t* __restrict quads) {
  for (int quad = 0; quad < count; ++quad) {
    std::uint32_t joined = 0;
    for (int i = 3; i >= 0; --i) {
      const std::uint32_t set = 0u - (std::uint32_t{fours[quad]} >> i & 1u);
      joined = joined << (width & set) | (codes[4 * quad + i] & set);
    }
    quads[quad] = joined;
  }
}

TRIACCEL_WIDE_VECTORS
void split_quads(const std::uint32_t* __restrict quads, const std::uint8_t* __restrict fours,
                 int count, std::uint32_t width, std::uint32_t* __restrict codes) {
  const std::uint32_t top = (1u << width) - 1;
  for (int quad = 0; quad < count; ++quad) {
    std::uint32_t joined = quads[quad];
    for (int i = 0; i < 4; ++i) {
      codes[4 * quad + i] = joined & top;
      joined >>= width & (0u - (std::uint32_t{fours[quad]} >> i & 1u));
    }
  }
}

/// Quads end to end.
class BitWriter {
 public:
  explicit BitWriter(unsigned char* to) : to_(to) {}

  void write(const std::uint32_t* quads, const std::uint8_t* fours, int count,
             std::uint32_t width) {
    for (int quad = 0; quad < count; ++quad) {
      waiting_ |= std::uint64_t{quads[quad]} << filled_;
      filled_ += width * kCounts[fours[quad]];
      std::memcpy(to_, &waiting_, sizeof waiting_);
      to_ += filled_ / 8;
      waiting_ >>= filled_ / 8 * 8;
      filled_ %= 8;
    }
  }

 private:
  unsigned char* to_;
  std::uint64_t waiting_ = 0;
  std::uint32_t filled_ = 0;  // bits that wait
};

TRIACCEL_WIDE_VECTORS
void write_bits(const std::uint32_t* quads, const std::uint8_t* fours, Widths widths,
                unsigned char* to) {
  const int wide = widths.wide_quads;
  BitWriter writer(to);
  writer.write(quads, fours, wide, widths.narrow + 1);
  writer.write(quads + wide, fours + wide, kNonZeroQuads - wide, widths.narrow);
}

TRIACCEL_WIDE_VECTORS
void read_bits(const unsigned char* from, const std::uint8_t* fours, Widths widths,
               std::uint32_t* quads) {
  std::uint32_t place = 0;
  for (int quad = 0; quad < kNonZeroQuads; ++quad) {
    std::uint64_t window;
    std::memcpy(&window, from + place / 8, sizeof window);
    quads[quad] = static_cast<std::uint32_t>(window >> place % 8);
    place += (widths.narrow + (quad < widths.wide_quads)) * kCounts[fours[quad]];
  }
}

/// The part of the mask that a tile has.
std::int64_t words_in(std::int64_t elements) { return (elements + 31) / 32; }

}  // namespace

void encode_nonzeros(const NonZeroCoding& coding, const void* values, NonZeroMask mask,
                     void* records, std::int32_t* not_finite) {
  const std::int64_t tiles = divide_up(coding.count, kNonZeroTile);
  const OffsetRule rule = offset_rule(coding.rounding);
  const std::size_t room = static_cast<std::size_t>(coding.eighths) * 16;
  std::int32_t bad_groups = 0;
#pragma omp parallel for schedule(static) reduction(+ : bad_groups) if (tiles > kTilesAlone)
  for (std::int64_t number = 0; number < tiles; ++number) {
    Tile tile;
    const std::int64_t first = number * kNonZeroTile;
    const std::int64_t count = std::min<std::int64_t>(kNonZeroTile, coding.count - first);
    const std::size_t mask_size = static_cast<std::size_t>(words_in(count)) * 4;
    const float* from = floats_of(coding, values, first, count, tile.values);
    if (mask.given != nullptr) {
      std::memset(tile.mask, 0, sizeof tile.mask);
      std::memcpy(tile.mask, mask.given + number * kNonZeroWords, mask_size);
      keep_masked<StoredAs<FloatType::F32>>(from, tile.mask, kNonZeroTile, tile.values);
      from = tile.values;
    } else {
      find_nonzeros(from, tile.mask);
      std::memcpy(mask.written + number * kNonZeroWords, tile.mask, mask_size);
    }
    std::uint16_t ranges[kNonZeroGroups];
    find_ranges(from, ranges);
    for (int group = 0; group < kNonZeroGroups; ++group) {
      if (!is_not_finite(ranges[group])) continue;
      ++bad_groups;
      if (from != tile.values) std::copy_n(from, kNonZeroTile, tile.values);
      from = tile.values;
      std::fill_n(tile.values + group * kNonZeroGroup, kNonZeroGroup, 0.0f);
    }
    split_mask(tile.mask, tile.fours);
    const Widths widths = widths_of(tile.mask, tile.fours, coding.eighths);
    draw(coding.key, number, tile.words);
    for_each_run(widths, [&](int begin, int end, int group, std::uint32_t width) {
      find_codes(from + begin, tile.halves() + begin, end - begin,
                 code_grid(ranges[group], width, rule), rule.factor, tile.codes + begin);
    });
    const int wide = widths.wide_quads;
    join_quads(tile.codes, tile.fours, wide, widths.narrow + 1, tile.quads);
    join_quads(tile.codes + 4 * wide, tile.fours + wide, kNonZeroQuads - wide, widths.narrow,
               tile.quads + wide);
    std::memset(tile.room, 0, room);
    write_bits(tile.quads, tile.fours, widths, tile.room);
    auto* record = static_cast<unsigned char*>(records) +
                   number * nonzero_record_words(coding.eighths) * std::int64_t{4};
    std::memcpy(record, ranges, sizeof ranges);
    std::memcpy(record + sizeof ranges, tile.room, room);
  }
  if (not_finite != nullptr) *not_finite += bad_groups;
}

void decode_nonzeros(const NonZeroCoding& coding, const std::uint32_t* mask, const void* records,
                     void* values) {
  const std::int64_t tiles = divide_up(coding.count, kNonZeroTile);
  const std::size_t room = static_cast<std::size_t>(coding.eighths) * 16;
#pragma omp parallel for schedule(static) if (tiles > kTilesAlone)
  for (std::int64_t number = 0; number < tiles; ++number) {
    Tile tile;
    const std::int64_t first = number * kNonZeroTile;
    const std::int64_t count = std::min<std::int64_t>(kNonZeroTile, coding.count - first);
    std::memset(tile.mask, 0, sizeof tile.mask);
    std::memcpy(tile.mask, mask + number * kNonZeroWords,
                static_cast<std::size_t>(words_in(count)) * 4);
    const auto* record = static_cast<const unsigned char*>(records) +
                         number * nonzero_record_words(coding.eighths) * std::int64_t{4};
    std::uint16_t ranges[kNonZeroGroups];
    std::memcpy(ranges, record, sizeof ranges);
    std::memcpy(tile.room, record + sizeof ranges, room);
    std::memset(tile.room + room, 0, kSlack);
    split_mask(tile.mask, tile.fours);
    const Widths widths = widths_of(tile.mask, tile.fours, coding.eighths);
    read_bits(tile.room, tile.fours, widths, tile.quads);
    const int wide = widths.wide_quads;
    split_quads(tile.quads, tile.fours, wide, widths.narrow + 1, tile.codes);
    split_quads(tile.quads + wide, tile.fours + wide, kNonZeroQuads - wide, widths.narrow,
                tile.codes + 4 * wide);
    if (coding.rounding == Rounding::Dither)
      draw(coding.key, number, tile.words);
    else
      std::memset(tile.words, 0xff, sizeof tile.words);
    for_each_run(widths, [&](int begin, int end, int group, std::uint32_t width) {
      find_values(tile.codes + begin, tile.halves() + begin, end - begin,
                  value_grid(ranges[group], width, coding.rounding), tile.values + begin);
    });
    with_stored_type(coding.type, [&]<typename Stored>(Stored) {
      keep_masked<Stored>(tile.values, tile.mask, count,
                          static_cast<typename Stored::Word*>(values) + first);
    });
  }
}

}  // namespace triaccel::kernels::cpu
