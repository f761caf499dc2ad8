#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "triaccel/base/random.h"
#include "triaccel/kernels/compression/codec_map.h"

namespace triaccel::kernels::map_cases {

struct MapKind {
  Activation activation;
  bool scaled;
};
inline constexpr MapKind kMapKinds[] = {{Activation::None, false}, {Activation::None, true},
                                        {Activation::Relu, false}, {Activation::Relu, true},
                                        {Activation::Silu, false}, {Activation::Silu, true}};

/// Whether what decoding wrote in `type` is what was expected of it: exactly, but for SiLU, whose
/// last bits are the device's own.
inline bool agrees(float found, float expected, Activation activation, FloatType type) {
  if (activation != Activation::Silu) return found == expected;
  const float share = type == FloatType::F32 ? 1e-5f : type == FloatType::Bf16 ? 0.01f : 0.002f;
  return std::fabs(found - expected) <= share * (0.01f + std::fabs(expected));
}

/// The memory of a map over so many images, channels and elements. Odd channels have weights below
/// zero; two of three elements pass the gate.
struct MapCase {
  MapKind kind;
  std::int64_t channels;
  std::vector<float> mean, inverse_deviation, weight, bias, scales;
  std::vector<std::uint32_t> gate;

  MapCase(MapKind chosen, std::int64_t images, std::int64_t channel_count, std::int64_t elements)
      : kind(chosen), channels(channel_count) {
    const auto uniform = [](std::uint64_t seed, std::int64_t i) {
      return unit_float(random_words(seed, static_cast<std::uint64_t>(i)).words[0]);
    };
    for (std::int64_t c = 0; c < channels; ++c) {
      mean.push_back(uniform(21, c) - 0.5f);
      inverse_deviation.push_back(0.5f + uniform(22, c));
      weight.push_back((c % 2 == 0 ? 1.0f : -1.0f) * (0.2f + uniform(23, c)));
      bias.push_back(2 * uniform(24, c) - 1);
    }
    for (std::int64_t i = 0; i < images * channels; ++i) scales.push_back(uniform(25, i));
    gate.resize(static_cast<std::size_t>((elements + 31) / 32));
    for (std::int64_t i = 0; i < elements; ++i)
      if (uniform(26, i) < 0.67f) gate[static_cast<std::size_t>(i / 32)] |= 1u << i % 32;
  }

  /// For the CPU; on a device the same with its pointers.
  CodecMap map() const {
    return {.mean = mean.data(),
            .inverse_deviation = inverse_deviation.data(),
            .weight = weight.data(),
            .bias = bias.data(),
            .activation = kind.activation,
            .gate = kind.activation == Activation::Relu ? gate.data() : nullptr,
            .scales = kind.scaled ? scales.data() : nullptr};
  }

  /// One element, by the formula.
  float expected(float x, std::int64_t element, std::int64_t channel, std::int64_t image) const {
    const auto c = static_cast<std::size_t>(channel);
    volatile float product = (x - mean[c]) * (weight[c] * inverse_deviation[c]);
    volatile float value = product + bias[c];  // never joined with the product
    if (kind.activation == Activation::Silu)
      value = static_cast<float>(value / (1.0 + std::exp(-static_cast<double>(value))));
    const bool open = (gate[static_cast<std::size_t>(element / 32)] >> element % 32 & 1u) != 0;
    if (kind.activation == Activation::Relu && !open) return 0.0f;
    return kind.scaled ? value * scales[static_cast<std::size_t>(image * channels + channel)]
                       : value;
  }
};

}  // namespace triaccel::kernels::map_cases
