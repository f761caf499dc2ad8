#pragma once

#include <string_view>

namespace triaccel {

/// The number format a layer computes in.
enum class Precision { Fp32, Bf16, Fp16, Int8 };

constexpr int bytes_per_element(Precision p) {
  switch (p) {
    case Precision::Fp32:
      return 4;
    case Precision::Bf16:
    case Precision::Fp16:
      return 2;
    case Precision::Int8:
      return 1;
  }
  return 0;  // unreachable: a missing case is a build error
}

constexpr std::string_view name_of(Precision p) {
  switch (p) {
    case Precision::Fp32:
      return "fp32";
    case Precision::Bf16:
      return "bf16";
    case Precision::Fp16:
      return "fp16";
    case Precision::Int8:
      return "int8";
  }
  return "";
}

}  // namespace triaccel
