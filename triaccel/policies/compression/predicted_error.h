#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/saved_statistics.h"

namespace triaccel {

/// Mean squared error of a dithered code of 1 to 8 bits, over the square of the range its levels
/// span: 1 / (12 (L - 1)^2), L levels. Between whole bits some codes have one bit more.
double code_error(double bits);

/// Mean squared error of a band's coefficients of so many bits on average; below 1, some are
/// dropped, which costs `drop_price` times their energy.
double band_error(const BandStatistics& band, double bits, double drop_price);

/// A tensor's statistics ready for predictions: defaults for what was not measured (a normal
/// distribution, after a ReLU half of one), and the gradient's weights with a mean of 1.
class ErrorModel {
 public:
  explicit ErrorModel(const SavedStatistics& tensor);

  bool measured(std::uint8_t block) const;

  /// Share of a band in the error, of so many eighths; over the tensor's variance. Block 0: all
  /// elements, in groups.
  double of_band(std::uint8_t block, int band, int eighths, double drop_price) const;

  /// Of a whole plan: mean squared error over variance, the gradient's weight counted in. 0 for
  /// what loses nothing, and for Derived, whose error is its source's.
  double of(const SavedPlan& plan, double drop_price) const;

 private:
  double nonzeros(int eighths) const;

  std::array<TransformStatistics, kTransformBlocks.size()> transforms_;
  double variance_ = 1;
  double unevenness_ = 1;
  double levelled_squared_range_ = 0;
  double nonzero_share_ = 1;
  double nonzero_squared_range_ = 0;
};

/// The index of the tensor that holds the values of `tensor` under plans: itself, or what it is
/// derived from, over as many steps as it takes.
std::size_t root_of(std::span<const SavedStatistics> tensors, std::span<const SavedPlan> plans,
                    std::size_t tensor);

/// The relative error of every tensor as backward gets it.
std::vector<double> predicted_errors(std::span<const SavedStatistics> tensors,
                                     std::span<const SavedPlan> plans, double drop_price);

/// What they add to the gradient's relative error, all together: sum of sensitivity times error.
double gradient_error(std::span<const SavedStatistics> tensors, std::span<const double> errors);

}  // namespace triaccel
