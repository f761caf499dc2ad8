#pragma once

#include <cstdint>
#include <span>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel::kernels {

/// Updates that need sums over rows or columns cut every matrix into tiles and leave the sums of
/// each in a workspace, one number for every kTileColumns elements of a row and every kTileRows of
/// a column: what is added in which order depends on the matrix alone.
inline constexpr std::int64_t kTileRows = 128;
inline constexpr std::int64_t kTileColumns = 256;

/// Sums over tiles that one CUDA block adds up.
inline constexpr std::int64_t kSumsPerUnit = 256;

/// One tensor as a matrix, and everything a block reads about it side by side. From a TensorEntry:
/// state = state1, workspace = state2.
struct MatrixTensor {
  float* parameter = nullptr;
  const void* gradient = nullptr;
  float* state = nullptr;
  float* workspace = nullptr;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::uint64_t seed = 0;
  std::int32_t layer = 0;
  FloatType type = FloatType::F32;

  TRIACCEL_HOST_DEVICE std::int64_t count() const { return rows * columns; }
  TRIACCEL_HOST_DEVICE std::int64_t tiles_down() const { return divide_up(rows, kTileRows); }
  TRIACCEL_HOST_DEVICE std::int64_t tiles_across() const {
    return divide_up(columns, kTileColumns);
  }
  TRIACCEL_HOST_DEVICE std::int64_t tiles() const { return tiles_down() * tiles_across(); }
};
static_assert(sizeof(MatrixTensor) == 64);

/// A part of a matrix: `rows` x `columns` elements from (row, column) on.
struct MatrixTile {
  std::int64_t row, column;
  std::int64_t rows, columns;
  std::int64_t down, across;  // its place among the tiles
};

TRIACCEL_HOST_DEVICE inline MatrixTile tile_of(const MatrixTensor& tensor, std::int64_t number) {
  const std::int64_t down = number / tensor.tiles_across();
  const std::int64_t across = number % tensor.tiles_across();
  const std::int64_t row = down * kTileRows, column = across * kTileColumns;
  const std::int64_t rows = tensor.rows - row, columns = tensor.columns - column;
  return {row,
          column,
          rows < kTileRows ? rows : kTileRows,
          columns < kTileColumns ? columns : kTileColumns,
          down,
          across};
}

/// Up to kCapacity matrices as one kernel argument.
struct MatrixList {
  static constexpr int kCapacity = 56;
  MatrixTensor tensors[kCapacity];
  std::int32_t first_unit[kCapacity + 1];  // prefix sum of the units of work of each
  std::int32_t size;
};
static_assert(sizeof(MatrixList) <= 3900,
              "kernel arguments end at 4 KB; the rest is the operation's");

struct MatrixUnit {
  int index;            // of the matrix in the list
  std::int64_t number;  // of the unit in the matrix
};

TRIACCEL_HOST_DEVICE inline MatrixUnit locate_unit(const MatrixList& list, std::int32_t unit) {
  int low = 0;
  int high = list.size;  // first_unit[low] <= unit < first_unit[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (list.first_unit[middle] <= unit)
      low = middle;
    else
      high = middle;
  }
  return {low, unit - list.first_unit[low]};
}

inline MatrixTensor as_matrix(const TensorEntry& tensor) {
  return {.parameter = tensor.parameter,
          .gradient = tensor.gradient,
          .state = tensor.state1,
          .workspace = tensor.state2,
          .rows = tensor.rows,
          .columns = tensor.count / tensor.rows,
          .seed = tensor.seed,
          .layer = tensor.layer,
          .type = tensor.gradient_type};
}

/// Calls body(list, units) for every kCapacity tensors in order, with units_of(tensor) units of
/// work each. Empty tensors are skipped.
template <typename UnitsOf, typename Body>
void for_each_matrix_list(std::span<const TensorEntry> tensors, UnitsOf units_of, Body body) {
  MatrixList list;
  list.size = 0;
  list.first_unit[0] = 0;
  const auto flush = [&] {
    if (list.size > 0) body(static_cast<const MatrixList&>(list), list.first_unit[list.size]);
    list.size = 0;
  };
  for (const TensorEntry& tensor : tensors) {
    if (tensor.count == 0) continue;
    MatrixTensor& matrix = list.tensors[list.size];
    matrix = as_matrix(tensor);
    list.first_unit[list.size + 1] =
        list.first_unit[list.size] + static_cast<std::int32_t>(units_of(matrix));
    if (++list.size == MatrixList::kCapacity) flush();
  }
  flush();
}

inline std::int64_t tiles_of(const MatrixTensor& tensor) { return tensor.tiles(); }

}  // namespace triaccel::kernels
