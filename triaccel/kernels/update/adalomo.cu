#include "triaccel/kernels/update/adalomo.h"

#include "triaccel/kernels/update/matrix_tile.cuh"

namespace triaccel::kernels::cuda {
namespace {

struct AddSums {
  template <typename Sum>
  __device__ void operator()(AdaLomoSums<Sum>& all, const AdaLomoSums<Sum>& part) const {
    add_sums(all, part);
  }
};

__device__ float inverse_root(float moment) { return 1.0f / sqrtf(moment); }

/// 1 / sqrt(c) of this thread's columns.
struct ColumnFactors {
  float of[kColumnsPerLane];

  __device__ ColumnFactors(const MatrixTensor& tensor, const MatrixTile& tile) {
    const float* moments = column_moments(tensor) + tile.column;
#pragma unroll
    for (int k = 0; k < kColumnsPerLane; ++k)
      of[k] = column_of(k) < tile.columns ? inverse_root(moments[column_of(k)]) : 0.0f;
  }
};

__device__ float row_factor(const MatrixTensor& tensor, std::int64_t row) {
  return is_factored(tensor) ? inverse_root(tensor.state[row]) : 1.0f;
}

/// One block per tile; reads the gradients.
__global__ void __launch_bounds__(kThreads)
    sum_squares_kernel(const __grid_constant__ MatrixList list,
                       const __grid_constant__ UpdateInputs inputs) {
  const MatrixUnit unit = locate_unit(list, static_cast<std::int32_t>(blockIdx.x));
  const MatrixTensor& tensor = list.tensors[unit.index];
  wait_for_previous_kernel();
  if (is_skipped(inputs, tensor.layer)) return;
  const AdaLomoWorkspace work = adalomo_workspace(tensor);
  const MatrixTile tile = tile_of(tensor, unit.number);
  float columns[kColumnsPerLane] = {};
  for_each_row(tensor, tile, gradient_multiplier(inputs, tensor.layer, tensor.type),
               [&](std::int64_t row, std::int64_t, const float* g) {
                 float sum = 0;
#pragma unroll
                 for (int k = 0; k < kColumnsPerLane; ++k) {
                   columns[k] += g[k] * g[k];
                   sum += g[k] * g[k];
                 }
                 sum = reduce_warp(sum, AddFloats{});
                 if (threadIdx.x % 32 == 0) work.row_sums[tile.across * tensor.rows + row] = sum;
               });
  store_columns(tile, columns, work.column_sums + tile.down * tensor.columns + tile.column);
}

/// One thread per number of the state.
__global__ void __launch_bounds__(kThreads)
    update_moments_kernel(const __grid_constant__ MatrixList list,
                          const __grid_constant__ UpdateInputs inputs, AdaLomoStep step) {
  const MatrixUnit unit = locate_unit(list, static_cast<std::int32_t>(blockIdx.x));
  const MatrixTensor& tensor = list.tensors[unit.index];
  const std::int64_t number = unit.number * kSumsPerUnit + threadIdx.x;
  wait_for_previous_kernel();
  if (is_skipped(inputs, tensor.layer) || number >= adalomo_state_size(tensor)) return;
  adalomo_moment(tensor, number, adalomo_gain(step, step_number(inputs)), step.gradient_epsilon);
}

/// One block per tile; reads gradients and weights. The last block of a tensor sets its scale.
__global__ void __launch_bounds__(kThreads)
    measure_updates_kernel(const __grid_constant__ MatrixList list,
                           const __grid_constant__ UpdateInputs inputs, AdaLomoStep step) {
  const MatrixUnit unit = locate_unit(list, static_cast<std::int32_t>(blockIdx.x));
  const MatrixTensor& tensor = list.tensors[unit.index];
  wait_for_previous_kernel();
  if (is_skipped(inputs, tensor.layer)) return;
  const AdaLomoWorkspace work = adalomo_workspace(tensor);
  const MatrixTile tile = tile_of(tensor, unit.number);
  const ColumnFactors factors(tensor, tile);
  const bool takes_rows = is_factored(tensor) && tile.across == 0 && threadIdx.x % 32 == 0;
  AdaLomoSums<float> mine;
  for_each_row(tensor, tile, gradient_multiplier(inputs, tensor.layer, tensor.type),
               [&](std::int64_t row, std::int64_t first, const float* g) {
                 const float of_row = row_factor(tensor, row);
                 const float* p = tensor.parameter + first;
#pragma unroll
                 for (int k = 0; k < kColumnsPerLane; ++k) {
                   const float weight = column_of(k) < tile.columns ? p[column_of(k)] : 0.0f;
                   const float update = g[k] * of_row * factors.of[k];
                   mine.weights += weight * weight;
                   mine.updates += update * update;
                 }
                 if (takes_rows) mine.row_moments += tensor.state[row];
               });
  mine = reduce_block<kThreads>(mine, AddSums{});
  if (threadIdx.x == 0) work.tiles[unit.number] = mine;
  if (!is_last_block(work.ticket, static_cast<std::uint32_t>(tensor.tiles()))) return;
  AdaLomoSums<double> all;
  for (std::int64_t i = threadIdx.x; i < tensor.tiles(); i += kThreads)
    add_sums(all, work.tiles[i]);
  all = reduce_block<kThreads>(all, AddSums{});
  if (threadIdx.x == 0) *work.scale = adalomo_scale(tensor, all, step);
}

/// One block per tile; reads gradients, reads and writes weights.
__global__ void __launch_bounds__(kThreads)
    update_weights_kernel(const __grid_constant__ MatrixList list,
                          const __grid_constant__ UpdateInputs inputs, float weight_decay) {
  const MatrixUnit unit = locate_unit(list, static_cast<std::int32_t>(blockIdx.x));
  const MatrixTensor& tensor = list.tensors[unit.index];
  wait_for_previous_kernel();
  if (is_skipped(inputs, tensor.layer)) return;
  const MatrixTile tile = tile_of(tensor, unit.number);
  const ColumnFactors factors(tensor, tile);
  const float scale = *adalomo_workspace(tensor).scale;
  const float learning_rate = inputs.learning_rates[tensor.layer];
  for_each_row(tensor, tile, gradient_multiplier(inputs, tensor.layer, tensor.type),
               [&](std::int64_t row, std::int64_t first, const float* g) {
                 const float of_row = row_factor(tensor, row);
                 float* p = tensor.parameter + first;
#pragma unroll
                 for (int k = 0; k < kColumnsPerLane; ++k)
                   if (column_of(k) < tile.columns)
                     adalomo_element(p[column_of(k)], scale * (g[k] * of_row * factors.of[k]),
                                     learning_rate, weight_decay);
               });
}

}  // namespace

void adalomo_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                    AdaLomoStep step, cudaStream_t stream) {
  constexpr std::string_view who = "adalomo_update";
  const auto moment_units = [](const MatrixTensor& tensor) {
    return divide_up(adalomo_state_size(tensor), kSumsPerUnit);
  };
  launch_units(who, tensors, tiles_of, sum_squares_kernel, stream, inputs);
  launch_units(who, tensors, moment_units, update_moments_kernel, stream, inputs, step);
  launch_units(who, tensors, tiles_of, measure_updates_kernel, stream, inputs, step);
  launch_units(who, tensors, tiles_of, update_weights_kernel, stream, inputs, step.weight_decay);
}

}  // namespace triaccel::kernels::cuda
