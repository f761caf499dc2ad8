#pragma once

#include "triaccel/core/precision.h"

namespace triaccel {

/// Rank of a format: FP16 < BF16 < FP32; integer layers rank below and never change.
constexpr int rank_of(Precision p) {
  if (p == Precision::Int8) return -1;
  return p == Precision::Fp16 ? 0 : p == Precision::Bf16 ? 1 : 2;
}

constexpr Precision higher(Precision a, Precision b) { return rank_of(a) < rank_of(b) ? b : a; }

/// The formats supported by the device; FP32 always is.
struct PrecisionLadder {
  bool bf16 = true;
  bool fp16 = true;

  /// `wanted`, or its replacement if the device does not support it.
  constexpr Precision nearest(Precision wanted) const {
    if (wanted == Precision::Bf16 && !bf16) return fp16 ? Precision::Fp16 : Precision::Fp32;
    if (wanted == Precision::Fp16 && !fp16) return bf16 ? Precision::Bf16 : Precision::Fp32;
    return wanted;
  }

  /// The next higher supported format; FP32 stays.
  constexpr Precision up(Precision from) const {
    return from == Precision::Fp16 && bf16 ? Precision::Bf16 : Precision::Fp32;
  }
};

}  // namespace triaccel
