#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/kernels/compression/codec_cases.h"
#include "triaccel/base/random.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/compression/nonzeros/nonzero_codec.h"

namespace triaccel::kernels::nonzero_cases {

using Bits = std::vector<std::uint32_t>;

/// Standard normal enough: the sum of four uniform numbers.
inline float normal_value(std::uint64_t seed, std::int64_t i) {
  const RandomWords words = random_words(seed, static_cast<std::uint64_t>(i));
  float sum = -2;
  for (const std::uint32_t word : words.words) sum += unit_float(word);
  return sum * 1.7320508f;
}

/// As a ReLU leaves them: half of them zero.
inline std::vector<float> rectified_values(std::int64_t count, std::uint64_t seed = 1) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(std::fmax(0.0f, normal_value(seed, i)));
  return values;
}

/// Tiles that are rectified, dense, empty, of both signs, sparse, constant, or hold tiny numbers
/// and an outlier.
inline std::vector<float> awkward_values(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const float normal = normal_value(5, i);
    const float by_kind[] = {std::fmax(0.0f, normal),
                             std::fabs(normal) + 0.01f,
                             i % 2 == 0 ? 0.0f : -0.0f,
                             normal > 0.5f || normal < -1 ? normal : 0.0f,
                             normal > 2 ? normal : 0.0f,
                             1000.3f,
                             i % 199 == 0 ? 1e6f : 1e-39f * normal};
    values.push_back(by_kind[i / kNonZeroTile % 7]);
  }
  return values;
}

inline Bits no_bits(std::int64_t count) {
  return Bits(static_cast<std::size_t>(mask_bytes(count) / 4));
}

/// A third of the elements, zeros among them.
inline Bits every_third(std::int64_t count) {
  Bits bits = no_bits(count);
  for (std::int64_t i = 0; i < count; i += 3)
    bits[static_cast<std::size_t>(i / 32)] |= 1u << i % 32;
  return bits;
}

struct Coded {
  Bits mask;
  Bytes records;
  std::int32_t not_finite = 0;
};

/// Where `mask` is empty, with one of its own.
inline Coded encoded_on_cpu(const NonZeroCoding& coding, const Bytes& values,
                            const Bits& mask = {}) {
  Coded coded = {
      mask.empty() ? no_bits(coding.count) : mask,
      Bytes(static_cast<std::size_t>(nonzero_bytes(coding.count, coding.eighths)), 0xaa)};
  const NonZeroMask bits = mask.empty() ? NonZeroMask{.written = coded.mask.data()}
                                        : NonZeroMask{.given = coded.mask.data()};
  cpu::encode_nonzeros(coding, values.data(), bits, coded.records.data(), &coded.not_finite);
  return coded;
}

inline Bytes decoded_on_cpu(const NonZeroCoding& coding, const Coded& coded) {
  Bytes values(static_cast<std::size_t>(coding.count * (coding.type == FloatType::F32 ? 4 : 2)),
               0xaa);
  cpu::decode_nonzeros(coding, coded.mask.data(), coded.records.data(), values.data());
  return values;
}

/// The codec once more, as Note [Tiles of non-zeros] has it: an element and a bit at a time.
class NonZeroOracle {
 public:
  explicit NonZeroOracle(const NonZeroCoding& coding) : coding_(coding) {}

  /// What is stored, with `mask` as the bits.
  Bytes encode(const std::vector<float>& values, const Bits& mask) const {
    Bytes records(static_cast<std::size_t>(nonzero_bytes(coding_.count, coding_.eighths)));
    for (std::int64_t first = 0; first < coding_.count; first += kNonZeroTile) {
      std::uint8_t* record = records.data() + first / kNonZeroTile * record_bytes();
      for (std::int64_t group = 0; group < 8; ++group) {
        const auto range = static_cast<std::uint16_t>(range_of(values, mask, first + group * 128));
        std::memcpy(record + group * 2, &range, 2);
      }
      for_each_code(mask, first, [&](std::int64_t i, int width, std::int64_t place) {
        const std::uint32_t code =
            code_of(values[static_cast<std::size_t>(i)], read_range(record, i), width, i);
        for (int b = 0; b < width; ++b)
          record[16 + (place + b) / 8] |=
              static_cast<std::uint8_t>((code >> b & 1u) << (place + b) % 8);
      });
    }
    return records;
  }

  std::vector<float> decode(const Bytes& records, const Bits& mask) const {
    std::vector<float> values(static_cast<std::size_t>(coding_.count));
    for (std::int64_t first = 0; first < coding_.count; first += kNonZeroTile) {
      const std::uint8_t* record = records.data() + first / kNonZeroTile * record_bytes();
      for_each_code(mask, first, [&](std::int64_t i, int width, std::int64_t place) {
        std::uint32_t code = 0;
        for (int b = 0; b < width; ++b)
          code |= (record[16 + (place + b) / 8] >> (place + b) % 8 & 1u) << b;
        values[static_cast<std::size_t>(i)] = value_of(code, read_range(record, i), width, i);
      });
    }
    return values;
  }

  /// The distance of two levels for each element with a bit, else 0.
  std::vector<float> levels(const Bytes& records, const Bits& mask) const {
    std::vector<float> found(static_cast<std::size_t>(coding_.count));
    for (std::int64_t first = 0; first < coding_.count; first += kNonZeroTile) {
      const std::uint8_t* record = records.data() + first / kNonZeroTile * record_bytes();
      for_each_code(mask, first, [&](std::int64_t i, int width, std::int64_t) {
        found[static_cast<std::size_t>(i)] = level(read_range(record, i), width);
      });
    }
    return found;
  }

 private:
  std::int64_t record_bytes() const { return (1 + coding_.eighths) * 16; }

  bool has_bit(const Bits& mask, std::int64_t i) const {
    return i < coding_.count && (mask[static_cast<std::size_t>(i / 32)] >> i % 32 & 1u) != 0;
  }
  int bits_in(const Bits& mask, std::int64_t begin, std::int64_t count) const {
    int bits = 0;
    for (std::int64_t i = begin; i < begin + count; ++i) bits += has_bit(mask, i);
    return bits;
  }

  /// body(element, width of its code, where the code begins in the room).
  template <typename Body>
  void for_each_code(const Bits& mask, std::int64_t first, Body body) const {
    const int count = bits_in(mask, first, kNonZeroTile), room = coding_.eighths * 128;
    if (count == 0) return;
    const int narrow = std::min(8, room / count);
    int spare = narrow == 8 ? 0 : room - count * narrow;
    std::int64_t place = 0;
    bool wide = true;
    for (std::int64_t quad = first; quad < first + kNonZeroTile; quad += 4) {
      const int codes = bits_in(mask, quad, 4);
      wide = wide && codes <= spare;
      if (wide) spare -= codes;
      for (std::int64_t i = quad; i < quad + 4; ++i) {
        if (!has_bit(mask, i)) continue;
        body(i, narrow + wide, place);
        place += narrow + wide;
      }
    }
  }

  std::uint32_t range_of(const std::vector<float>& values, const Bits& mask,
                         std::int64_t begin) const {
    float largest = 0x1.0p-100f;
    bool negative = false;
    for (std::int64_t i = begin; i < begin + 128; ++i) {
      if (!has_bit(mask, i)) continue;
      const float value = values[static_cast<std::size_t>(i)];
      if (!(std::fabs(value) < 0x1.0p126f)) return 0x7fff;
      largest = std::fmax(largest, std::fabs(value));
      negative = negative || value < 0;
    }
    const std::uint32_t bits = bits_of_float(largest);
    const std::uint32_t up = (bits >> 16) + ((bits & 0xffffu) != 0 ? 1u : 0u);
    if (bf16_to_float(static_cast<std::uint16_t>(up)) >= 0x1.0p126f) return 0x7fff;
    return up | (negative ? 0x8000u : 0u);
  }
  static std::uint32_t read_range(const std::uint8_t* record, std::int64_t i) {
    std::uint16_t range;
    std::memcpy(&range, record + i % kNonZeroTile / 128 * 2, 2);
    return range;
  }
  static float reach(std::uint32_t range) {
    return bf16_to_float(static_cast<std::uint16_t>(range & 0x7fffu));
  }
  static float level(std::uint32_t range, int width) {
    return reach(range) * (range >= 0x8000u ? 2.0f : 1.0f) / static_cast<float>((1 << width) - 1);
  }

  float offset_of(std::int64_t i) const {
    if (coding_.rounding == Rounding::Nearest) return 0.5f;
    const std::int64_t tile = i / kNonZeroTile, group = i % kNonZeroTile / 128, quad = i % 128 / 4;
    const auto call = static_cast<std::uint64_t>(tile * 64 + quad * 2 + group / 4);
    return drawn_offset(coding_.key, call, group % 4 * 4 + i % 4);
  }

  std::uint32_t code_of(float value, std::uint32_t range, int width, std::int64_t i) const {
    if (range == 0x7fff) return 0;
    const bool both_signs = range >= 0x8000u;
    const auto top = static_cast<float>((1 << width) - 1);
    const float quotient = 65536.0f * top / (reach(range) * (both_signs ? 2.0f : 1.0f));
    const float scale = float_from_bits(bits_of_float(quotient) - 4);
    volatile float product = value * scale;  // never joined with the sum
    const float offset = offset_of(i) * 65536.0f + (both_signs ? top * 32768.0f : 0.0f);
    return static_cast<std::uint32_t>(std::floor((product + offset) / 65536.0f));
  }

  float value_of(std::uint32_t code, std::uint32_t range, int width, std::int64_t i) const {
    const bool subtracts = coding_.rounding == Rounding::Dither;
    const float step = level(range, width) / 65536.0f;
    volatile float centre = subtracts ? 32767.5f * step : 0.0f;
    const float base = (range >= 0x8000u ? -reach(range) : 0.0f) - centre;
    // code - offset + 1/2, from where the levels' centres begin.
    const double place = subtracts ? (code + 0.5 - offset_of(i)) * 65536 + 32767.5 : code * 65536.0;
    volatile float product = step * static_cast<float>(place);
    return base + product;
  }

  NonZeroCoding coding_;
};

}  // namespace triaccel::kernels::nonzero_cases
