#pragma once

#include <cstdint>

namespace triaccel {

/// Folds one value into a hash by the finaliser of SplitMix64, which spreads every bit. The same on
/// every machine.
constexpr std::uint64_t mixed_hash(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t z = hash + 0x9E3779B97F4A7C15u + value;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace triaccel
