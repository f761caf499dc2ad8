#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/kernels/compression/codec_cases.h"
#include "triaccel/base/random.h"
#include "triaccel/kernels/compression/groups/group_codec_math.h"

namespace triaccel::kernels::group_cases {

/// Ranges that differ from group to group, some of them constant, zero, tiny or with an outlier.
inline std::vector<float> awkward_values(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const float uniform = unit_float(random_words(5, static_cast<std::uint64_t>(i)).words[0]);
    switch (i / kGroupElements % 7) {
      case 0:
        values.push_back(4 * uniform - 2);
        break;
      case 1:
        values.push_back(uniform > 0.5f ? uniform : -0.0f);
        break;
      case 2:
        values.push_back(1000.3f);
        break;
      case 3:
        values.push_back(i % 199 == 0 ? 1e6f : uniform - 0.5f);
        break;
      case 4:
        values.push_back(i % 2 == 0 ? 0.0f : -0.0f);
        break;
      case 5:
        values.push_back(-1e-33f * uniform);
        break;
      case 6:
        values.push_back(-1e4f * uniform - 1);
        break;
    }
  }
  return values;
}

inline Bytes encoded_on_cpu(const GroupCoding& coding, const Bytes& values,
                            std::int32_t* not_finite = nullptr) {
  Bytes codes(static_cast<std::size_t>(group_bytes(coding.count, coding.eighths)), 0xaa);
  cpu::encode_groups(coding, values.data(), codes.data(), not_finite);
  return codes;
}

inline Bytes decoded_on_cpu(const GroupCoding& coding, const Bytes& codes) {
  const int bytes = coding.type == FloatType::F32 ? 4 : 2;
  Bytes values(static_cast<std::size_t>(coding.count * bytes), 0xaa);
  cpu::decode_groups(coding, codes.data(), values.data());
  return values;
}

/// The codec once more, bit by bit as Note [Tiles of groups] has it and an element at a time.
class GroupOracle {
 public:
  explicit GroupOracle(const GroupCoding& coding) : coding_(coding) {}

  Bytes encode(const std::vector<float>& values) const {
    Bytes codes(static_cast<std::size_t>(group_bytes(coding_.count, coding_.eighths)));
    const std::int64_t room = group_tiles(coding_.count) * kGroupTile;
    for (std::int64_t begin = 0; begin < room; begin += kGroupElements) {
      std::vector<float> group;
      for (std::int64_t i = begin; i < begin + kGroupElements; ++i)
        group.push_back(i < coding_.count       ? values[static_cast<std::size_t>(i)]
                        : begin < coding_.count ? group.front()
                                                : 0.0f);
      const GroupRange range = range_of(group);
      const std::uint32_t stored = stored_group_range(range);
      std::memcpy(codes.data() + range_at(begin), &stored, 4);
      for (std::int64_t i = 0; i < kGroupElements; ++i)
        write(codes, begin + i, code_of(group[static_cast<std::size_t>(i)], range, begin + i));
    }
    return codes;
  }

  std::vector<float> decode(const Bytes& codes) const {
    std::vector<float> values;
    for (std::int64_t i = 0; i < coding_.count; ++i) {
      std::uint32_t stored = 0;
      std::memcpy(&stored, codes.data() + range_at(i), 4);
      const GroupRange range = read_group_range(stored);
      const float level = range.range * (1.0f / static_cast<float>(top_of(i)));
      const double code = read(codes, i);
      const bool subtracts = coding_.rounding == Rounding::Dither;
      // code - offset + 1/2 in 65536ths of a level; half of one of these counts to the low end.
      const auto position =
          static_cast<float>(subtracts ? (code + 0.5 - offset_of(i)) * 65536 - 0.5 : code * 65536);
      volatile float product = level * 0x1.0p-16f * position;  // never joined with the sum
      values.push_back((subtracts ? range.low + level * 0x1.0p-17f : range.low) + product);
    }
    return values;
  }

  /// The distance of two levels at an element.
  float level_at(const Bytes& codes, std::int64_t i) const {
    std::uint32_t stored = 0;
    std::memcpy(&stored, codes.data() + range_at(i), 4);
    return read_group_range(stored).range / static_cast<float>(top_of(i));
  }

 private:
  static GroupRange range_of(const std::vector<float>& group) {
    float least = group.front(), largest = group.front();
    for (const float value : group) {
      if (value != value) return group_range(value, value);
      least = std::fmin(least, value);
      largest = std::fmax(largest, value);
    }
    return group_range(least, largest);
  }

  // Where element i lies.
  static std::int64_t tile_of(std::int64_t i) { return i / kGroupTile; }
  static std::int64_t lane_of(std::int64_t i) { return i % 1024 / 256 * 8 + i % 32 / 4; }
  static std::int64_t place_of(std::int64_t i) { return i % 256 / 32 * 4 + i % 4; }

  bool has_extra(std::int64_t i) const {
    const int rest = coding_.eighths % 8;
    const std::int64_t place = place_of(i) % 8;
    return place % 2 == 1             ? (rest & 4) != 0
           : place == 2 || place == 6 ? (rest & 2) != 0
           : place == 4               ? (rest & 1) != 0
                                      : false;
  }
  std::uint32_t top_of(std::int64_t i) const {
    return (1u << (coding_.eighths / 8 + (has_extra(i) ? 1 : 0))) - 1;
  }

  float offset_of(std::int64_t i) const {
    if (coding_.rounding == Rounding::Nearest) return 0.5f;
    const auto call =
        static_cast<std::uint64_t>((tile_of(i) * 32 + lane_of(i)) * 4 + place_of(i) / 8);
    return drawn_offset(coding_.key, call, place_of(i) % 8);
  }

  std::uint32_t code_of(float value, GroupRange range, std::int64_t i) const {
    const auto top = static_cast<float>(top_of(i));
    const float inverse = range.range > 0 ? 65536.0f / range.range : 0.0f;
    volatile float product = (value - range.low) * (inverse * top);  // never joined with the sum
    const float code = std::floor((product + offset_of(i) * 65536.0f) / 65536.0f);
    return code < top ? static_cast<std::uint32_t>(code) : top_of(i);
  }

  std::int64_t tiles() const { return group_tiles(coding_.count); }
  std::int64_t extra4_begin() const { return tiles() * 128 * (coding_.eighths / 8); }
  std::int64_t extra2_begin() const {
    return extra4_begin() + (coding_.eighths % 8 & 4 ? tiles() * 64 : 0);
  }
  std::int64_t ranges_begin() const {
    return extra2_begin() + (coding_.eighths % 8 & 2 ? tiles() * 32 : 0);
  }
  std::int64_t range_at(std::int64_t i) const { return ranges_begin() + i / 256 * 4; }

  /// Number of bit `b` of element i's code among all bits.
  std::int64_t bit_at(std::int64_t i, int b) const {
    const std::int64_t bits = coding_.eighths / 8, tile = tile_of(i), lane = lane_of(i);
    const std::int64_t place = place_of(i), last = lane + tile * 32;
    if (has_extra(i) && b == 0) {
      if (place % 2 == 1) return extra4_begin() * 8 + last * 16 + place / 2;
      if (place % 4 == 2) return extra2_begin() * 8 + last * 8 + place / 4;
      return (ranges_begin() + tiles() * 16) * 8 + last * 4 + place / 8;
    }
    const std::int64_t at = place * bits + b - (has_extra(i) ? 1 : 0);
    return ((tile * bits + at / 32) * 32 + lane) * 32 + at % 32;
  }
  int width_of(std::int64_t i) const { return coding_.eighths / 8 + (has_extra(i) ? 1 : 0); }

  void write(Bytes& codes, std::int64_t i, std::uint32_t code) const {
    for (int b = 0; b < width_of(i); ++b) {
      const std::int64_t at = bit_at(i, b);
      codes[static_cast<std::size_t>(at / 8)] |=
          static_cast<std::uint8_t>((code >> b & 1u) << at % 8);
    }
  }
  std::uint32_t read(const Bytes& codes, std::int64_t i) const {
    std::uint32_t code = 0;
    for (int b = 0; b < width_of(i); ++b) {
      const std::int64_t at = bit_at(i, b);
      code |= static_cast<std::uint32_t>(codes[static_cast<std::size_t>(at / 8)] >> at % 8 & 1)
              << b;
    }
    return code;
  }

  GroupCoding coding_;
};

}  // namespace triaccel::kernels::group_cases
