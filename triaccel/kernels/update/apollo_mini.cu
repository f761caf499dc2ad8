#include "triaccel/kernels/update/apollo_mini.h"

#include "triaccel/kernels/update/matrix_tile.cuh"

namespace triaccel::kernels::cuda {
namespace {

struct AddProjectedSums {
  template <typename Sum>
  __device__ void operator()(ProjectedSums<Sum>& all, const ProjectedSums<Sum>& part) const {
    add_sums(all, part);
  }
  __device__ void operator()(double& all, double part) const { all += part; }
};

/// z at the positions of a tile, one per thread.
__device__ float tile_projection(const MatrixTensor& tensor, const MatrixTile& tile,
                                 std::int64_t projection) {
  const std::int64_t first = keeps_rows(tensor) ? tile.column : tile.row;
  return projection_element(tensor.seed, projection, first + threadIdx.x);
}

/// One block per tile; reads the gradients.
__global__ void __launch_bounds__(kThreads)
    project_kernel(const __grid_constant__ MatrixList list,
                   const __grid_constant__ UpdateInputs inputs, std::int64_t interval) {
  const MatrixUnit unit = locate_unit(list, static_cast<std::int32_t>(blockIdx.x));
  const MatrixTensor& tensor = list.tensors[unit.index];
  const MatrixTile tile = tile_of(tensor, unit.number);
  wait_for_previous_kernel();
  if (is_skipped(inputs, tensor.layer)) return;
  const ApolloMiniWorkspace work = apollo_mini_workspace(tensor);
  const bool rows = keeps_rows(tensor);
  __shared__ float z[kThreads];
  z[threadIdx.x] = tile_projection(tensor, tile, projection_number(step_number(inputs), interval));
  __syncthreads();
  float columns[kColumnsPerLane] = {};
  float squares = 0;
  for_each_row(tensor, tile, gradient_multiplier(inputs, tensor.layer, tensor.type),
               [&](std::int64_t row, std::int64_t, const float* g) {
                 float projected = 0;
                 const float of_row = z[rows ? 0 : row - tile.row];
#pragma unroll
                 for (int k = 0; k < kColumnsPerLane; ++k) {
                   squares += g[k] * g[k];
                   projected += z[column_of(k)] * g[k];
                   columns[k] += of_row * g[k];
                 }
                 if (!rows) return;
                 projected = reduce_warp(projected, AddFloats{});
                 if (threadIdx.x % 32 == 0) work.parts[tile.across * tensor.rows + row] = projected;
               });
  squares = reduce_block<kThreads>(squares, AddFloats{});
  if (threadIdx.x == 0) work.tiles[unit.number] = squares;
  if (!rows) store_columns(tile, columns, work.parts + tile.down * tensor.columns + tile.column);
}

/// One thread per number of R. The last block of a tensor sets its scale.
__global__ void __launch_bounds__(kThreads)
    update_projected_kernel(const __grid_constant__ MatrixList list,
                            const __grid_constant__ UpdateInputs inputs,
                            const __grid_constant__ ApolloMiniStep step) {
  const MatrixUnit unit = locate_unit(list, static_cast<std::int32_t>(blockIdx.x));
  const MatrixTensor& tensor = list.tensors[unit.index];
  const std::int64_t i = unit.number * kSumsPerUnit + threadIdx.x;
  wait_for_previous_kernel();
  if (is_skipped(inputs, tensor.layer)) return;
  const ApolloMiniWorkspace work = apollo_mini_workspace(tensor);
  __shared__ AdamWFactors factors;
  if (threadIdx.x == 0) factors = adamw_factors(step.adamw, step_number(inputs));
  __syncthreads();
  ProjectedSums<float> mine;
  if (i < projected_size(tensor)) mine = update_projected(tensor, i, factors);
  mine = reduce_block<kThreads>(mine, AddProjectedSums{});
  if (threadIdx.x == 0) work.units[unit.number] = mine;
  const std::int64_t units = projected_units(tensor);
  if (!is_last_block(work.ticket, static_cast<std::uint32_t>(units))) return;
  ProjectedSums<double> all;
  double squares = 0;
  for (std::int64_t k = threadIdx.x; k < units; k += kThreads) add_sums(all, work.units[k]);
  for (std::int64_t k = threadIdx.x; k < tensor.tiles(); k += kThreads)
    squares += double{work.tiles[k]};
  all = reduce_block<kThreads>(all, AddProjectedSums{});
  squares = reduce_block<kThreads>(squares, AddProjectedSums{});
  if (threadIdx.x == 0) *work.scale = apollo_mini_scale(tensor, squares, all, step);
}

/// One block per tile; reads gradients, reads and writes weights.
__global__ void __launch_bounds__(kThreads)
    apply_kernel(const __grid_constant__ MatrixList list,
                 const __grid_constant__ UpdateInputs inputs, float weight_decay) {
  const MatrixUnit unit = locate_unit(list, static_cast<std::int32_t>(blockIdx.x));
  const MatrixTensor& tensor = list.tensors[unit.index];
  const MatrixTile tile = tile_of(tensor, unit.number);
  wait_for_previous_kernel();
  if (is_skipped(inputs, tensor.layer)) return;
  const float scale = *apollo_mini_workspace(tensor).scale;
  const float learning_rate = inputs.learning_rates[tensor.layer];
  for_each_row(tensor, tile, gradient_multiplier(inputs, tensor.layer, tensor.type),
               [&](std::int64_t, std::int64_t first, const float* g) {
                 float* p = tensor.parameter + first;
#pragma unroll
                 for (int k = 0; k < kColumnsPerLane; ++k)
                   if (column_of(k) < tile.columns)
                     apollo_mini_element(p[column_of(k)], g[k], scale, learning_rate, weight_decay);
               });
}

}  // namespace

void apollo_mini_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                        ApolloMiniStep step, cudaStream_t stream) {
  constexpr std::string_view who = "apollo_mini_update";
  launch_units(who, tensors, tiles_of, project_kernel, stream, inputs, step.projection_interval);
  launch_units(who, tensors, projected_units, update_projected_kernel, stream, inputs, step);
  launch_units(who, tensors, tiles_of, apply_kernel, stream, inputs, step.adamw.weight_decay);
}

}  // namespace triaccel::kernels::cuda
