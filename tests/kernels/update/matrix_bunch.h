#pragma once

#include <functional>
#include <utility>

#include "tests/kernels/common/tensor_bunch.h"
#include "triaccel/kernels/update/matrix_list.h"

namespace triaccel::kernels {

/// Matrices of the given rows and columns with random weights and gradients, zero states of
/// `state_size` and workspaces of `workspace_size` floats, spread over three layers.
struct MatrixBunch {
  using Size = std::function<std::int64_t(const MatrixTensor&)>;
  std::vector<std::int64_t> rows;
  TensorBunch tensors = TensorBunch({});

  MatrixBunch(const std::vector<std::pair<std::int64_t, std::int64_t>>& shapes,
              const Size& state_size, const Size& workspace_size) {
    for (const auto& [down, across] : shapes) {
      const MatrixTensor shape = {.rows = down, .columns = across};
      rows.push_back(down);
      tensors.parameters.push_back(at::randn({down * across}));
      tensors.states1.push_back(at::zeros({state_size(shape)}));
      tensors.states2.push_back(at::zeros({workspace_size(shape)}));
    }
    draw_gradients(1);
  }

  /// Random ones, of about `size`, some rows and columns larger than others.
  void draw_gradients(double size, at::ScalarType type = at::kFloat) {
    tensors.gradients.clear();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::int64_t across = tensors.parameters[i].numel() / rows[i];
      tensors.gradients.push_back((at::randn({rows[i], across}) * (0.5 + at::rand({rows[i], 1})) *
                                   (0.5 + at::rand({1, across})) * size)
                                      .flatten()
                                      .to(type));
    }
  }

  MatrixBunch on(at::Device device) const {
    MatrixBunch copy = *this;
    copy.tensors = tensors.on(device);
    return copy;
  }

  std::vector<TensorEntry> entries() const {
    std::vector<TensorEntry> list = tensors.entries();
    for (std::size_t i = 0; i < list.size(); ++i) {
      list[i].rows = rows[i];
      list[i].seed = i + 5;
    }
    return list;
  }

  /// Row by row, in FP64.
  static std::vector<std::vector<double>> table(const at::Tensor& values, std::int64_t rows) {
    const at::Tensor wide = values.to(at::kDouble);
    const std::int64_t columns = wide.numel() / rows;
    std::vector<std::vector<double>> table;
    for (const double* row = wide.const_data_ptr<double>(); rows > 0; --rows, row += columns)
      table.emplace_back(row, row + columns);
    return table;
  }

  bool same_weights_and_states(const MatrixBunch& other) const {
    return same_bits(tensors.parameters, other.tensors.parameters) &&
           same_bits(tensors.states1, other.tensors.states1);
  }
};

/// Nothing, single elements, vectors, tiles and their neighbours, and more matrices than two
/// launches take. Matrices have two rows and columns or more.
inline std::vector<std::pair<std::int64_t, std::int64_t>> awkward_shapes(bool vectors) {
  std::vector<std::pair<std::int64_t, std::int64_t>> shapes = {{2, 2},
                                                               {3, kTileColumns + 1},
                                                               {kTileRows + 1, 3},
                                                               {kTileRows, kTileColumns},
                                                               {17, 31},
                                                               {300, 700},
                                                               {1000, 10},
                                                               {2 * kTileRows + 5, 40},
                                                               {64, 64},
                                                               {5, 4 * kTileColumns},
                                                               {10, 2 * kTileRows},
                                                               {700, 300}};
  if (vectors) shapes.insert(shapes.end(), {{1, 0}, {1, 1}, {1, 7919}, {1, kTileColumns}});
  for (std::int64_t i = 0; i < 2 * MatrixList::kCapacity; ++i)
    shapes.emplace_back(2 + i % 7, 2 + i % 11);
  return shapes;
}

}  // namespace triaccel::kernels
