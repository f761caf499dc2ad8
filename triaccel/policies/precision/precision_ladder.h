#pragma once

#include "triaccel/core/precision.h"

namespace triaccel {

/// The place of a format on the ladder FP16 < BF16 < FP32; integer layers stand below it.
constexpr int rung_of(Precision p) {
  switch (p) {
    case Precision::Int8:
      return -1;
    case Precision::Fp16:
      return 0;
    case Precision::Bf16:
      return 1;
    case Precision::Fp32:
      return 2;
  }
  return 0;
}

constexpr Precision higher(Precision a, Precision b) { return rung_of(a) < rung_of(b) ? b : a; }

/// The formats a layer may be given on this device. FP32 is always there.
struct PrecisionLadder {
  bool bf16 = true;
  bool fp16 = true;

  /// The format that stands in for `wanted` where it is missing.
  constexpr Precision nearest(Precision wanted) const {
    switch (wanted) {
      case Precision::Bf16:
        return bf16 ? Precision::Bf16 : fp16 ? Precision::Fp16 : Precision::Fp32;
      case Precision::Fp16:
        return fp16 ? Precision::Fp16 : bf16 ? Precision::Bf16 : Precision::Fp32;
      case Precision::Fp32:
      case Precision::Int8:
        return wanted;
    }
    return wanted;
  }

  /// The next rung that exists here; FP32 stays.
  constexpr Precision up(Precision from) const {
    return from == Precision::Fp16 && bf16 ? Precision::Bf16 : Precision::Fp32;
  }
};

}  // namespace triaccel
