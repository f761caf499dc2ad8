#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/precision/weight_copy.h"

namespace triaccel::kernels {

/// Where an element lies in a dense box of four dimensions.
struct BoxPosition {
  std::int32_t at[4];
};

/// 32-bit division: a 64-bit one costs more than the element's bytes.
TRIACCEL_HOST_DEVICE inline BoxPosition position_in(const std::int32_t (&extent)[4],
                                                    std::int64_t index) {
  BoxPosition position;
  auto rest = static_cast<std::uint32_t>(index);
  for (int d = 3; d > 0; --d) {
    const std::uint32_t quotient = rest / static_cast<std::uint32_t>(extent[d]);
    position.at[d] =
        static_cast<std::int32_t>(rest - quotient * static_cast<std::uint32_t>(extent[d]));
    rest = quotient;
  }
  position.at[0] = static_cast<std::int32_t>(rest);
  return position;
}

TRIACCEL_HOST_DEVICE inline std::int64_t elements_of(const std::int32_t (&extent)[4]) {
  return std::int64_t{extent[0]} * extent[1] * extent[2] * extent[3];
}

TRIACCEL_HOST_DEVICE inline std::int64_t offset_of(const WeightCopyEntry& entry,
                                                   BoxPosition position) {
  std::int64_t offset = 0;
  for (int d = 0; d < 4; ++d) offset += std::int64_t{position.at[d]} * entry.stride[d];
  return offset;
}

TRIACCEL_HOST_DEVICE inline std::uint16_t copied_word(float value, FloatType type) {
  return type == FloatType::Bf16 ? float_to_bf16(value) : float_to_f16(value);
}

/// Of the element in `part` that lands at `position`, which may lie outside of it.
TRIACCEL_HOST_DEVICE inline std::int64_t offset_of(const WholeGradient& gradient,
                                                   BoxPosition position) {
  std::int64_t offset = 0;
  for (int d = 0; d < 4; ++d)
    offset += std::int64_t{position.at[d] - gradient.first[d]} * gradient.stride[d];
  return offset;
}

/// Whether the first `dimensions` indices of `position` lie in the part.
TRIACCEL_HOST_DEVICE inline bool in_part(const WholeGradient& gradient, BoxPosition position,
                                         int dimensions) {
  bool inside = true;
  for (int d = 0; d < dimensions; ++d)
    inside = inside && position.at[d] >= gradient.first[d] && position.at[d] < gradient.last[d];
  return inside;
}

}  // namespace triaccel::kernels
