#pragma once

#include <cstdint>
#include <span>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel::kernels {

struct LayerScale;  // layer_scale.h

/// The gradients of one layer, unscaled. Sums, maximum and FP16 counts are over the finite
/// elements, so that one overflow does not hide the rest.
struct LayerMoments {
  std::int64_t count = 0;  // elements, finite or not
  double sum = 0;
  double sum_of_squares = 0;
  std::int64_t nonfinite = 0;
  float absolute_maximum = 0;
  float fp16_scale = 1;  // loss scale * layer scale: what FP16 gradients are multiplied with
  // Elements that are not zero, but which FP16 would round to zero under fp16_scale (2^-25 or
  // less), or keep with fewer than its 11 bits (below 2^-14).
  std::int64_t fp16_zeros = 0;
  std::int64_t fp16_subnormals = 0;
};
static_assert(sizeof(LayerMoments) == 56);

/// A chunk's share of its layer's moments, or what a CUDA block leaves for the last of its layer.
struct ChunkMoments {
  double sum = 0;
  double sum_of_squares = 0;
  float absolute_maximum = 0;
  std::int32_t nonfinite = 0;
  std::int32_t count = 0;
  std::int32_t layer = 0;
  std::int32_t fp16_zeros = 0;
  std::int32_t fp16_subnormals = 0;
};
static_assert(sizeof(ChunkMoments) == 40);

/// Memory that add_gradient_moments works in; no two calls may use it at a time.
struct MomentsScratch {
  ChunkMoments* chunks = nullptr;    // chunk_count(tensors), which is enough for CUDA's segments
  std::uint32_t* tickets = nullptr;  // one per layer, all 0 before and after; not used on the CPU
};

/// What moments are read against: `scales` may be null: all 1.
struct MomentsScales {
  const float* loss_scale = nullptr;
  const LayerScale* scales = nullptr;
};

/// clear_moments: no gradient yet; fp16_scale of every layer is set.
/// add_gradient_moments: one pass over the gradients of all tensors (parameter and states are not
/// read), which adds to the moments of their layers, in one kernel for every MomentsList::kCapacity
/// tensors. Gradients are divided by the loss scale first, those stored as F16 by their layer's
/// scale too (exact for powers of two). The order of every sum depends on the tensors alone: the
/// same calls give the same bits, whatever the number of threads. Reads each gradient once: 2 or 4
/// bytes per element.
namespace cpu {
void clear_moments(MomentsScales scales, LayerMoments* layers, std::int64_t layer_count);
void add_gradient_moments(std::span<const TensorEntry> tensors, MomentsScales scales,
                          MomentsScratch scratch, LayerMoments* layers);
}  // namespace cpu
namespace cuda {
void clear_moments(MomentsScales scales, LayerMoments* layers, std::int64_t layer_count,
                   cudaStream_t stream);
void add_gradient_moments(std::span<const TensorEntry> tensors, MomentsScales scales,
                          MomentsScratch scratch, LayerMoments* layers, cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
