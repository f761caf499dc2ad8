#include "triaccel/kernels/update/adalomo.h"

#include "triaccel/kernels/update/matrix_loop_cpu.h"

namespace triaccel::kernels::cpu {
namespace {

float inverse_root(float moment) { return 1.0f / std::sqrt(moment); }

void sum_tile(const MatrixTensor& tensor, std::int64_t number, float multiplier) {
  const AdaLomoWorkspace work = adalomo_workspace(tensor);
  const MatrixTile tile = tile_of(tensor, number);
  float columns[kTileColumns] = {};
  for_each_row(tensor, tile, multiplier, [&](std::int64_t row, std::int64_t, const float* g) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < tile.columns; ++i) {
      columns[i] += g[i] * g[i];
      sum += g[i] * g[i];
    }
    work.row_sums[tile.across * tensor.rows + row] = sum;
  });
  float* to = work.column_sums + tile.down * tensor.columns + tile.column;
  for (std::int64_t i = 0; i < tile.columns; ++i) to[i] = columns[i];
}

void measure_tile(const MatrixTensor& tensor, std::int64_t number, float multiplier) {
  const MatrixTile tile = tile_of(tensor, number);
  const float* moments = column_moments(tensor) + tile.column;
  float of_column[kTileColumns];
  for (std::int64_t i = 0; i < tile.columns; ++i) of_column[i] = inverse_root(moments[i]);
  AdaLomoSums<float> sums;
  for_each_row(tensor, tile, multiplier, [&](std::int64_t row, std::int64_t first, const float* g) {
    const float of_row = is_factored(tensor) ? inverse_root(tensor.state[row]) : 1.0f;
    const float* p = tensor.parameter + first;
    float weights = 0, updates = 0;
#pragma omp simd reduction(+ : weights, updates)
    for (std::int64_t i = 0; i < tile.columns; ++i) {
      const float update = g[i] * of_row * of_column[i];
      weights += p[i] * p[i];
      updates += update * update;
    }
    add_sums(sums, AdaLomoSums<float>{weights, updates, 0});
    if (is_factored(tensor) && tile.across == 0) sums.row_moments += tensor.state[row];
  });
  adalomo_workspace(tensor).tiles[number] = sums;
}

void update_tile(const MatrixTensor& tensor, std::int64_t number, float multiplier,
                 float learning_rate, float weight_decay) {
  const MatrixTile tile = tile_of(tensor, number);
  const float scale = *adalomo_workspace(tensor).scale;
  const float* moments = column_moments(tensor) + tile.column;
  float of_column[kTileColumns];
  for (std::int64_t i = 0; i < tile.columns; ++i) of_column[i] = inverse_root(moments[i]);
  for_each_row(tensor, tile, multiplier, [&](std::int64_t row, std::int64_t first, const float* g) {
    const float of_row = is_factored(tensor) ? inverse_root(tensor.state[row]) : 1.0f;
    float* p = tensor.parameter + first;
#pragma omp simd
    for (std::int64_t i = 0; i < tile.columns; ++i)
      adalomo_element(p[i], scale * (g[i] * of_row * of_column[i]), learning_rate, weight_decay);
  });
}

void set_scale(const MatrixTensor& tensor, AdaLomoStep step) {
  const AdaLomoWorkspace work = adalomo_workspace(tensor);
  AdaLomoSums<double> sums;
  for (std::int64_t i = 0; i < tensor.tiles(); ++i) add_sums(sums, work.tiles[i]);
  *work.scale = adalomo_scale(tensor, sums, step);
}

}  // namespace

void adalomo_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                    AdaLomoStep step) {
  const auto multiplier = [&](const MatrixTensor& tensor) {
    return gradient_multiplier(inputs, tensor.layer, tensor.type);
  };
  for_each_unit(tensors, tiles_of, [&](const MatrixTensor& tensor, std::int64_t tile) {
    if (!is_skipped(inputs, tensor.layer)) sum_tile(tensor, tile, multiplier(tensor));
  });
  const float gain = adalomo_gain(step, step_number(inputs));
  for_each_unit(tensors, adalomo_state_size, [&](const MatrixTensor& tensor, std::int64_t number) {
    if (!is_skipped(inputs, tensor.layer))
      adalomo_moment(tensor, number, gain, step.gradient_epsilon);
  });
  for_each_unit(tensors, tiles_of, [&](const MatrixTensor& tensor, std::int64_t tile) {
    if (!is_skipped(inputs, tensor.layer)) measure_tile(tensor, tile, multiplier(tensor));
  });
  for (const TensorEntry& tensor : tensors)
    if (tensor.count > 0 && !is_skipped(inputs, tensor.layer)) set_scale(as_matrix(tensor), step);
  for_each_unit(tensors, tiles_of, [&](const MatrixTensor& tensor, std::int64_t tile) {
    if (!is_skipped(inputs, tensor.layer))
      update_tile(tensor, tile, multiplier(tensor), inputs.learning_rates[tensor.layer],
                  step.weight_decay);
  });
}

}  // namespace triaccel::kernels::cpu
