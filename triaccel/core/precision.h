#pragma once

#include <string_view>

namespace triaccel {

/// The number format a layer computes in.
enum class Precision { Fp32, Bf16, Fp16, Int8 };

constexpr int bytes_per_element(Precision p) {
  return p == Precision::Fp32 ? 4 : p == Precision::Int8 ? 1 : 2;
}

constexpr std::string_view name_of(Precision p) {
  constexpr std::string_view kNames[] = {"fp32", "bf16", "fp16", "int8"};
  return kNames[static_cast<std::size_t>(p)];
}

}  // namespace triaccel
