#pragma once

#include "triaccel/core/precision.h"

namespace triaccel {

/// The relative difference two correct implementations may show after a handful of roundings in
/// different order: eight units in the last place of the format, none for integers.
constexpr double tolerance_for(Precision precision) {
  switch (precision) {
    case Precision::Fp32:
      return 8 * 0x1.0p-24;
    case Precision::Bf16:
      return 8 * 0x1.0p-9;
    case Precision::Fp16:
      return 8 * 0x1.0p-12;
    case Precision::Int8:
      return 0;
  }
  return 0;
}

}  // namespace triaccel
