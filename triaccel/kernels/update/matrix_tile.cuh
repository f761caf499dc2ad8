#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "triaccel/kernels/common/block_reduce.cuh"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/common/overlapped_launch.cuh"
#include "triaccel/kernels/update/matrix_list.h"

namespace triaccel::kernels::cuda {

inline constexpr int kWarps = kThreads / 32;
inline constexpr int kColumnsPerLane = kTileColumns / 32;
static_assert(kThreads == kTileColumns && kThreads == kSumsPerUnit);

struct AddFloats {
  __device__ void operator()(float& all, float part) const { all += part; }
};

/// Column of a tile that slot `k` of this thread holds; neighbouring lanes have neighbouring ones.
__device__ inline int column_of(int k) { return k * 32 + static_cast<int>(threadIdx.x % 32); }

/// Calls body(row, first, gradient) in a warp for every row it takes, one in eight: `first` is the
/// index of the row's first element in the tile, gradient[k] that of column_of(k), multiplied, and
/// 0 beyond the end of the tile.
template <typename Body>
__device__ void for_each_row(const MatrixTensor& tensor, const MatrixTile& tile, float multiplier,
                             Body body) {
  with_stored_type(tensor.type, [&]<typename Stored>(Stored) {
    const auto* stored = static_cast<const typename Stored::Word*>(tensor.gradient);
    for (std::int64_t row = tile.row + threadIdx.x / 32; row < tile.row + tile.rows;
         row += kWarps) {
      const std::int64_t first = row * tensor.columns + tile.column;
      float gradient[kColumnsPerLane];
#pragma unroll
      for (int k = 0; k < kColumnsPerLane; ++k)
        gradient[k] = column_of(k) < tile.columns
                          ? multiplier * Stored::value(stored[first + column_of(k)])
                          : 0.0f;
      body(row, first, gradient);
    }
  });
}

/// Adds the columns that the warps of a block have summed, and stores those of the tile at `to`.
/// Once in a kernel.
__device__ inline void store_columns(const MatrixTile& tile,
                                     const float (&columns)[kColumnsPerLane], float* to) {
  __shared__ float of_warps[kWarps][kTileColumns];
#pragma unroll
  for (int k = 0; k < kColumnsPerLane; ++k) of_warps[threadIdx.x / 32][column_of(k)] = columns[k];
  __syncthreads();
  if (threadIdx.x >= tile.columns) return;
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) sum += of_warps[warp][threadIdx.x];
  to[threadIdx.x] = sum;
}

/// kernel(list, arguments...) for every list, one block per unit of work, launched overlapped.
template <typename UnitsOf, typename... Parameters, typename... Arguments>
void launch_units(std::string_view who, std::span<const TensorEntry> tensors, UnitsOf units_of,
                  void (*kernel)(Parameters...), cudaStream_t stream,
                  const Arguments&... arguments) {
  for_each_matrix_list(tensors, units_of, [&](const MatrixList& list, std::int32_t units) {
    launch_overlapped(who, kernel, {.grid = unsigned(units), .threads = kThreads}, stream, list,
                      arguments...);
  });
}

}  // namespace triaccel::kernels::cuda
