#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "triaccel/int8/network.h"

namespace triaccel::int8 {

/// Training state of a run.
struct State {
  Network network = {};
  std::vector<std::int8_t> weights = {};     // mantissas, network.weight_bytes of them
  std::vector<std::int32_t> exponents = {};  // one per layer: weight = mantissa · 2^exponent
  std::uint64_t step = 0;                    // steps done; keys the random numbers
  bool operator==(const State&) const = default;
};

/// Xavier-uniform weights with the smallest sufficient exponent.
State initial_state(Network network, std::uint64_t seed);

/// The largest mantissa and the exponent of Xavier-uniform weights.
struct WeightGrid {
  std::int32_t largest = 0;
  std::int32_t exponent = 0;
};
WeightGrid xavier_grid(std::int64_t fan_in, std::int64_t fan_out);

/// A layer's weights in files.
struct NamedWeights {
  std::string name = {};
  std::vector<std::int64_t> shape = {};  // [out, kernel, kernel, in] or [out, in]
  std::vector<std::int8_t> data = {};
  std::int32_t exponent = 0;
};

std::vector<NamedWeights> export_weights(const State& state);

/// Imports weights by name; every layer must be present with its shape and without -128.
void import_weights(State& state, std::span<const NamedWeights> weights);

/// A hash of weights, exponents and step: equal runs have equal hashes on every machine.
std::uint64_t state_hash(const State& state);

/// pixel / 2 with kPixelExponent: the image in [0, 1).
inline constexpr std::int32_t kPixelExponent = -7;
void quantise_pixels(std::span<const std::uint8_t> pixels, std::int8_t* mantissas);

}  // namespace triaccel::int8
