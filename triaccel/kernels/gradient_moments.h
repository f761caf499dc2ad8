#pragma once

#include <cstdint>
#include <span>

#include "triaccel/kernels/cuda_stream.h"
#include "triaccel/kernels/tensor_list.h"

namespace triaccel::kernels {

/// The gradients of one layer after division by the loss scale. Sums and maximum are over the
/// finite elements, so that one overflow does not hide the rest.
struct LayerMoments {
  std::int64_t count = 0;  // elements, finite or not
  double sum = 0;
  double sum_of_squares = 0;
  std::int64_t nonfinite = 0;
  float absolute_maximum = 0;
  std::int32_t reserved = 0;
};
static_assert(sizeof(LayerMoments) == 40);

/// One chunk's share of its layer's moments: what the first stage leaves for the second.
struct ChunkMoments {
  double sum = 0;
  double sum_of_squares = 0;
  float absolute_maximum = 0;
  std::int32_t nonfinite = 0;
  std::int32_t count = 0;
  std::int32_t layer = 0;
};
static_assert(sizeof(ChunkMoments) == 32);

/// One pass over the gradients of all tensors (parameter and states are not read). `chunks` is
/// scratch for chunk_count(tensors) entries. `layers` [layer_count] is overwritten; layers without
/// a tensor get zeros. Gradients are divided by `*loss_scale` first (exact for powers of two). The
/// order of every sum depends on the tensors alone: the same gradients give the same bits, whatever
/// the number of threads.
namespace cpu {
void gradient_moments(std::span<const TensorEntry> tensors, const float* loss_scale,
                      ChunkMoments* chunks, LayerMoments* layers, std::int64_t layer_count);
}
namespace cuda {
void gradient_moments(std::span<const TensorEntry> tensors, const float* loss_scale,
                      ChunkMoments* chunks, LayerMoments* layers, std::int64_t layer_count,
                      cudaStream_t stream);
}

}  // namespace triaccel::kernels
