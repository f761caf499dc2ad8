#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"

namespace triaccel::int8 {

inline constexpr std::int32_t kMostReach = 63;
inline constexpr std::uint32_t kMostZeroShare = 61440;

/// How weights are perturbed: zero with probability zero_share / 2^16, else uniform over
/// [-reach, reach], in units of the weight's last bit.
struct NoiseShape {
  std::int32_t reach = 15;       // 0 to kMostReach
  std::uint32_t zero_share = 0;  // at most kMostZeroShare
};

/// The same as constants of the draw: no division afterwards, and 16-bit arithmetic, which vectors
/// have most of.
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

/// The perturbation that 16 random bits stand for.
TRIACCEL_HOST_DEVICE inline std::int16_t noise_value(const Noise& noise, std::uint16_t random) {
  const auto above = static_cast<std::uint16_t>(random - noise.zero_below);
  const auto level = static_cast<std::uint16_t>((std::uint32_t{above} * noise.scale) >> 16);
  const std::uint16_t cut = level < noise.last ? level : noise.last;
  const auto value = static_cast<std::int16_t>(cut - noise.reach);
  return random < noise.zero_below ? std::int16_t{0} : value;
}

/// A layer's rows as the weights lie in memory.
struct WeightRows {
  const std::int8_t* weights = nullptr;  // of the first row
  std::int64_t index = 0;                // of the first weight among all of the network
  std::int32_t rows = 0;
  std::int32_t depth = 0;
};

/// Copies rows to a stride of padded_depth(depth), filled with zeros.
void pack_rows(const WeightRows& from, std::int8_t* panel);

/// Rows of w + z and of w - z, saturated, in two panels laid out like pack_rows'. z of a weight
/// depends on (key, its index) alone; the weights themselves are only read.
void pack_perturbed_rows(const WeightRows& from, std::uint64_t key, const Noise& noise,
                         std::int8_t* plus, std::int8_t* minus);

}  // namespace triaccel::int8
