#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "triaccel/kernels/common/float_type_math.h"

namespace triaccel::kernels {

/// The number of `type` nearest to `value`, ties to even, by FP64 arithmetic alone. Magnitudes too
/// large for the type give infinity, or 65504 where `saturate` says so.
inline double nearest(double value, FloatType type, bool saturate = false) {
  if (!std::isfinite(value) || value == 0) return value;
  struct Format {
    int bits, smallest_exponent;
    double largest;
  };
  const Format format = type == FloatType::F16    ? Format{11, -14, 65504}
                        : type == FloatType::Bf16 ? Format{8, -126, 0x1.fep127}
                                                  : Format{24, -126, 0x1.fffffep127};
  const int exponent = std::max(std::ilogb(value), format.smallest_exponent);
  const double quantum = std::ldexp(1.0, exponent - format.bits + 1);
  const double rounded = std::nearbyint(value / quantum) * quantum;
  if (std::abs(rounded) <= format.largest) return rounded;
  const bool clamps = saturate && type == FloatType::F16;
  return std::copysign(clamps ? format.largest : std::numeric_limits<double>::infinity(), value);
}

inline bool same_number(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

inline constexpr FloatType kFloatTypes[] = {FloatType::F32, FloatType::Bf16, FloatType::F16};

inline std::size_t bytes_of(FloatType type) { return type == FloatType::F32 ? 4 : 2; }

/// Values as an array of `type`, each rounded as the type wants it.
inline std::vector<std::byte> stored(const std::vector<float>& values, FloatType type) {
  std::vector<std::byte> bytes(values.size() * bytes_of(type));
  with_stored_type(type, [&]<typename Stored>(Stored) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto word = Stored::word(values[i]);
      std::memcpy(bytes.data() + i * sizeof word, &word, sizeof word);
    }
  });
  return bytes;
}

inline std::vector<float> loaded(const std::byte* bytes, std::size_t count, FloatType type) {
  std::vector<float> values(count);
  with_stored_type(type, [&]<typename Stored>(Stored) {
    for (std::size_t i = 0; i < count; ++i) {
      typename Stored::Word word;
      std::memcpy(&word, bytes + i * sizeof word, sizeof word);
      values[i] = Stored::value(word);
    }
  });
  return values;
}

/// `count` values of both signs over FP32's exponents, every eighth of them special: infinities,
/// NaN, zeros, FP16's and FP32's smallest and largest, ties between neighbours.
inline std::vector<float> awkward_values(std::size_t count) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float special[] = {infinity,  -infinity,      std::nanf(""), 0.0f,         -0.0f,
                           65504.0f,  -65505.0f,      65520.0f,      1e30f,        0x1p-24f,
                           0x1p-25f,  -0x1.8p-24f,    0x1p-14f,      0x1.ffcp-15f, 0x1.ffep-15f,
                           0x1p-149f, -0x1p-126f,     0x1.002p0f,    0x1.006p0f,   -0x1.01p0f,
                           0x1.03p0f, 0x1.fffffep127f};
  std::vector<float> values(count);
  std::uint32_t state = 7;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    const float fraction = 1.0f + static_cast<float>(state >> 9) * 0x1p-23f;
    const int exponent =
        i % 2 == 0 ? static_cast<int>(state % 40) - 26 : static_cast<int>(state % 250) - 125;
    values[i] = std::ldexp(state & 0x100 ? fraction : -fraction, exponent);
    if (i % 8 == 3) values[i] = special[(i / 8) % std::size(special)];
  }
  return values;
}

}  // namespace triaccel::kernels
