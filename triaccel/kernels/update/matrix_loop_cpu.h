#pragma once

#include <cstdint>
#include <span>

#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/update/matrix_list.h"

namespace triaccel::kernels::cpu {

/// Calls body(tensor, number) for every unit of work of all tensors, on all threads.
template <typename UnitsOf, typename Body>
void for_each_unit(std::span<const TensorEntry> tensors, UnitsOf units_of, Body body) {
  for_each_matrix_list(tensors, units_of, [&](const MatrixList& list, std::int32_t units) {
#pragma omp parallel for schedule(static) if (units > 1)
    for (std::int32_t unit = 0; unit < units; ++unit) {
      const MatrixUnit place = locate_unit(list, unit);
      body(list.tensors[place.index], place.number);
    }
  });
}

/// Calls body(row, first, gradient) for every row of a tile: `first` is the index of the row's
/// first element in the tile, `gradient` its elements there, multiplied.
template <typename Body>
void for_each_row(const MatrixTensor& tensor, const MatrixTile& tile, float multiplier, Body body) {
  with_stored_type(tensor.type, [&]<typename Stored>(Stored) {
    const auto* stored = static_cast<const typename Stored::Word*>(tensor.gradient);
    float gradient[kTileColumns];
    for (std::int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
      const std::int64_t first = row * tensor.columns + tile.column;
#pragma omp simd
      for (std::int64_t i = 0; i < tile.columns; ++i)
        gradient[i] = multiplier * Stored::value(stored[first + i]);
      body(row, first, static_cast<const float*>(gradient));
    }
  });
}

}  // namespace triaccel::kernels::cpu
