#pragma once

#include <cstdint>
#include <span>

#include "triaccel/kernels/cuda_stream.h"
#include "triaccel/kernels/tensor_list.h"

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

/// One chunk's share of its layer's moments: what the first stage leaves for the second.
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

/// One pass over the gradients of all tensors (parameter and states are not read). `chunks` is
/// scratch for chunk_count(tensors) entries. `layers` [layer_count] is overwritten; layers without
/// a tensor get zeros. Gradients are divided by `*loss_scale` first, those stored as F16 by
/// scales[layer].scale too (exact for powers of two); `scales` may be null: all 1. The order of
/// every sum depends on the tensors alone: the same gradients give the same bits, whatever the
/// number of threads. Reads each gradient once: 2 or 4 bytes an element.
namespace cpu {
void gradient_moments(std::span<const TensorEntry> tensors, const float* loss_scale,
                      const LayerScale* scales, ChunkMoments* chunks, LayerMoments* layers,
                      std::int64_t layer_count);
}
namespace cuda {
void gradient_moments(std::span<const TensorEntry> tensors, const float* loss_scale,
                      const LayerScale* scales, ChunkMoments* chunks, LayerMoments* layers,
                      std::int64_t layer_count, cudaStream_t stream);
}

}  // namespace triaccel::kernels
