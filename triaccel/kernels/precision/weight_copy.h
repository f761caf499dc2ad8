#pragma once

#include <cstdint>
#include <span>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel::kernels {

/// A 16-bit copy of an FP32 weight, or of a part of it. `to` is dense; its dimensions are listed as
/// they lie in memory, outermost first, with the step that each takes through `from`.
struct WeightCopyEntry {
  const float* from = nullptr;  // what lands in to[0]
  std::uint16_t* to = nullptr;
  FloatType type = FloatType::Bf16;       // of `to`: Bf16 or F16
  std::int32_t extent[4] = {1, 1, 1, 1};  // of `to`; fewer than 2^31 elements together
  std::int32_t stride[4] = {};            // in `from`, in elements
};

/// The gradient of a whole weight from that of a part. `whole` is dense; its dimensions are listed
/// as they lie in memory, outermost first.
struct WholeGradient {
  const void* part = nullptr;
  void* whole = nullptr;
  std::int32_t word_bytes = 2;            // of an element on either side: 2 or 4
  std::int32_t extent[4] = {1, 1, 1, 1};  // of `whole`; fewer than 2^31 elements together
  std::int32_t first[4] = {};             // `part` lies at [first, last) of each dimension
  std::int32_t last[4] = {1, 1, 1, 1};
  std::int64_t stride[4] = {};  // of `part`, in elements
};

/// copy_weights: every `to` from its `from`, rounded to nearest even. Moves 4 + 2 bytes per element
/// of `to`. One launch for 64 entries.
/// write_whole_gradient: zeros outside the part. Moves the part once and the whole once.
namespace cpu {
void copy_weights(std::span<const WeightCopyEntry> entries);
void write_whole_gradient(const WholeGradient& gradient);
}  // namespace cpu
namespace cuda {
void copy_weights(std::span<const WeightCopyEntry> entries, cudaStream_t stream);
void write_whole_gradient(const WholeGradient& gradient, cudaStream_t stream);
}  // namespace cuda

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
