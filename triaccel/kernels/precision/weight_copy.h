#pragma once

#include <cstdint>
#include <span>

#include "triaccel/base/host_device.h"
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

}  // namespace triaccel::kernels
