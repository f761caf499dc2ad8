#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"

namespace triaccel::int8 {

inline constexpr std::int32_t kMostReach = 63;
inline constexpr std::uint32_t kMostZeroShare = 61440;

/// Distribution of weight perturbations: zero with probability zero_share / 2^16, otherwise uniform
/// over [-reach, reach], in units of the last bit.
struct NoiseShape {
  std::int32_t reach = 15;       // 0 to kMostReach
  std::uint32_t zero_share = 0;  // at most kMostZeroShare
};

/// Precomputed constants of the distribution: avoids divisions and uses 16-bit arithmetic, which
/// vectorizes best.
struct Noise {
  std::uint16_t zero_below = 0;
  std::uint16_t scale = 0;
  std::uint16_t last = 0;  // level
  std::int16_t reach = 0;
};

inline Noise make_noise(const NoiseShape& shape) {
  const std::uint32_t levels = 2 * static_cast<std::uint32_t>(shape.reach) + 1;
  return {.zero_below = static_cast<std::uint16_t>(shape.zero_share),
          .scale = static_cast<std::uint16_t>((levels << 16) / (65536u - shape.zero_share)),
          .last = static_cast<std::uint16_t>(levels - 1),
          .reach = static_cast<std::int16_t>(shape.reach)};
}

/// The perturbation for 16 random bits.
TRIACCEL_HOST_DEVICE inline std::int16_t noise_value(const Noise& noise, std::uint16_t random) {
  const auto above = static_cast<std::uint16_t>(random - noise.zero_below);
  const auto level = static_cast<std::uint16_t>((std::uint32_t{above} * noise.scale) >> 16);
  const std::uint16_t cut = level < noise.last ? level : noise.last;
  const auto value = static_cast<std::int16_t>(cut - noise.reach);
  return random < noise.zero_below ? std::int16_t{0} : value;
}

/// Rows of a layer's weights in memory.
struct WeightRows {
  const std::int8_t* weights = nullptr;  // of the first row
  std::int64_t index = 0;                // of the first weight among all of the network
  std::int32_t rows = 0;
  std::int32_t depth = 0;
};

/// Copies rows to a stride of padded_depth(depth), padded with zeros.
void pack_rows(const WeightRows& from, std::int8_t* panel);

/// Writes rows of w + z and w - z, saturated, to two panels with the layout of pack_rows. z depends
/// only on (key, index); the weights are only read.
void pack_perturbed_rows(const WeightRows& from, std::uint64_t key, const Noise& noise,
                         std::int8_t* plus, std::int8_t* minus);

}  // namespace triaccel::int8
