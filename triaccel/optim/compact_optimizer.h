#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "triaccel/optim/optimizer.h"

namespace triaccel {

/// A parameter as the matrix [outputs, inputs * kernel height * kernel width], the way its memory
/// holds it: `rows` times `columns` numbers, row by row. Parameters with less than two rows or
/// columns are one row.
struct MatrixLayout {
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  bool transposed = false;  // the first dimension of the parameter is the column

  bool is_vector() const { return rows == 1; }
};

/// UsageError unless the first dimension is the outermost or the innermost in memory.
MatrixLayout matrix_layout(const ParameterRef& parameter);

/// One number per row (or per column) of `parameter`, which lie at `memory`, in the shape of the
/// dimensions of the parameter that these are: [outputs] or [inputs, kernel height, kernel width].
at::Tensor per_row(const at::Tensor& memory, const at::Tensor& parameter, MatrixLayout layout);
at::Tensor per_column(const at::Tensor& memory, const at::Tensor& parameter, MatrixLayout layout);

/// An optimizer with states of other shapes than its parameters: a few numbers per row or column.
class CompactOptimizer : public Optimizer {
 public:
  std::int64_t state_bytes() const override;
  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 protected:
  void add_state(std::string name, at::Tensor tensor) {
    states_.emplace_back(std::move(name), std::move(tensor));
  }

 private:
  std::vector<std::pair<std::string, at::Tensor>> states_;
};

/// Zeros on `device`, in one allocation: a part of each size, at multiples of 32 elements.
std::vector<at::Tensor> zeroed_parts(const std::vector<std::int64_t>& sizes,
                                     const at::Device& device);

/// The optimizers that OptimizerKind names and which are not made of moments.
std::unique_ptr<Optimizer> make_adalomo(const OptimizerOptions& options,
                                        std::vector<ParameterRef> parameters);
std::unique_ptr<Optimizer> make_apollo_mini(const OptimizerOptions& options,
                                            std::vector<ParameterRef> parameters);

}  // namespace triaccel
