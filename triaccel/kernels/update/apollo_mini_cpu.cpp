#include "triaccel/kernels/update/apollo_mini.h"

#include "triaccel/kernels/update/matrix_loop_cpu.h"

namespace triaccel::kernels::cpu {
namespace {

/// z at the positions of a tile.
struct TileProjection {
  float z[kTileColumns];

  TileProjection(const MatrixTensor& tensor, const MatrixTile& tile, std::int64_t projection) {
    const std::int64_t first = keeps_rows(tensor) ? tile.column : tile.row;
    const std::int64_t count = keeps_rows(tensor) ? tile.columns : tile.rows;
    for (std::int64_t i = 0; i < count; ++i)
      z[i] = projection_element(tensor.seed, projection, first + i);
  }
};

void project_tile(const MatrixTensor& tensor, std::int64_t number, float multiplier,
                  std::int64_t projection) {
  const ApolloMiniWorkspace work = apollo_mini_workspace(tensor);
  const MatrixTile tile = tile_of(tensor, number);
  const TileProjection along(tensor, tile, projection);
  const bool rows = keeps_rows(tensor);
  float columns[kTileColumns] = {};
  float squares = 0;
  for_each_row(tensor, tile, multiplier, [&](std::int64_t row, std::int64_t, const float* g) {
    float projected = 0, of_row = 0;
    const float z = rows ? 0.0f : along.z[row - tile.row];
#pragma omp simd reduction(+ : projected, of_row)
    for (std::int64_t i = 0; i < tile.columns; ++i) {
      of_row += g[i] * g[i];
      if (rows)
        projected += along.z[i] * g[i];
      else
        columns[i] += z * g[i];
    }
    squares += of_row;
    if (rows) work.parts[tile.across * tensor.rows + row] = projected;
  });
  work.tiles[number] = squares;
  if (rows) return;
  float* to = work.parts + tile.down * tensor.columns + tile.column;
  for (std::int64_t i = 0; i < tile.columns; ++i) to[i] = columns[i];
}

void update_unit(const MatrixTensor& tensor, std::int64_t number, const AdamWFactors& factors) {
  const std::int64_t begin = number * kSumsPerUnit;
  const std::int64_t end = std::min(begin + kSumsPerUnit, projected_size(tensor));
  ProjectedSums<float> sums;
  for (std::int64_t i = begin; i < end; ++i) add_sums(sums, update_projected(tensor, i, factors));
  apollo_mini_workspace(tensor).units[number] = sums;
}

void limit_scale(const MatrixTensor& tensor, const ApolloMiniStep& step) {
  const ApolloMiniWorkspace work = apollo_mini_workspace(tensor);
  double squares = 0;
  for (std::int64_t i = 0; i < tensor.tiles(); ++i) squares += double{work.tiles[i]};
  ProjectedSums<double> sums;
  for (std::int64_t i = 0; i < projected_units(tensor); ++i) add_sums(sums, work.units[i]);
  *work.scale = apollo_mini_scale(tensor, squares, sums, step);
}

void apply_tile(const MatrixTensor& tensor, std::int64_t number, float multiplier,
                float learning_rate, float weight_decay) {
  const MatrixTile tile = tile_of(tensor, number);
  const float scale = *apollo_mini_workspace(tensor).scale;
  for_each_row(tensor, tile, multiplier, [&](std::int64_t, std::int64_t first, const float* g) {
    float* p = tensor.parameter + first;
#pragma omp simd
    for (std::int64_t i = 0; i < tile.columns; ++i)
      apollo_mini_element(p[i], g[i], scale, learning_rate, weight_decay);
  });
}

}  // namespace

void apollo_mini_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                        ApolloMiniStep step) {
  const std::int64_t projection = projection_number(step_number(inputs), step.projection_interval);
  const AdamWFactors factors = adamw_factors(step.adamw, step_number(inputs));
  const auto multiplier = [&](const MatrixTensor& tensor) {
    return gradient_multiplier(inputs, tensor.layer, tensor.type);
  };
  for_each_unit(tensors, tiles_of, [&](const MatrixTensor& tensor, std::int64_t tile) {
    if (!is_skipped(inputs, tensor.layer))
      project_tile(tensor, tile, multiplier(tensor), projection);
  });
  for_each_unit(tensors, projected_units, [&](const MatrixTensor& tensor, std::int64_t number) {
    if (!is_skipped(inputs, tensor.layer)) update_unit(tensor, number, factors);
  });
  for (const TensorEntry& tensor : tensors)
    if (tensor.count > 0 && !is_skipped(inputs, tensor.layer)) limit_scale(as_matrix(tensor), step);
  for_each_unit(tensors, tiles_of, [&](const MatrixTensor& tensor, std::int64_t tile) {
    if (!is_skipped(inputs, tensor.layer))
      apply_tile(tensor, tile, multiplier(tensor), inputs.learning_rates[tensor.layer],
                 step.adamw.weight_decay);
  });
}

}  // namespace triaccel::kernels::cpu
