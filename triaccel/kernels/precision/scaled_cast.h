#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel::kernels {

/// `count` elements of dense memory on each side; the two do not overlap.
struct CastArrays {
  const void* from = nullptr;
  FloatType from_type = FloatType::F32;
  void* to = nullptr;
  FloatType to_type = FloatType::F32;
  std::int64_t count = 0;
};

/// Reads device memory, so that a captured graph follows the scale.
struct CastScale {
  const float* scale = nullptr;  // a power of two; null: 1
  bool divide = false;
  float* absolute_maximum = nullptr;  // raised to the largest finite magnitude on the unscaled
                                      // side, before rounding; a divided infinity counts as
                                      // 65504 / scale; null: not wanted
};

/// to = from * scale (or from / scale), rounded to nearest even. A finite element that is too large
/// for FP16 becomes +-65504 there; infinities and NaNs stay what they are. Moves one element of
/// each type per element (F32 -> F16: 6 bytes) and nothing else: bound by memory.
namespace cpu {
void scaled_cast(const CastArrays& arrays, CastScale scale);
}
namespace cuda {
void scaled_cast(const CastArrays& arrays, CastScale scale, cudaStream_t stream);
}

}  // namespace triaccel::kernels
