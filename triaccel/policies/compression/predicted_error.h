#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/saved_statistics.h"

namespace triaccel {

/// What a dropped band costs, over its energy: a drop is a bias, which steps do not average out as
/// they do noise.
inline constexpr double kDropPrice = 32;

/// The squared range of a levelled channel, over its variance, that is expected of whole batches at
/// least: a range grows with the number of samples.
inline constexpr double kLeastLevelledRange = 32;

/// Mean squared error of dithered quantization to 1 to 8 bits, relative to the squared range: 1 /
/// (12 (L - 1)^2) for L levels. At fractional widths some elements have one bit more.
double quantization_error(double bits);

/// Mean squared error of a band's coefficients at a mean width; below one bit some are dropped,
/// which costs `drop_price` times their energy.
double band_error(const BandStatistics& band, double bits, double drop_price);

/// A tensor's statistics prepared for predictions: defaults for missing measurements (normal
/// distribution, half-normal after a ReLU), and gradient weights normalized to a mean of 1.
class ErrorModel {
 public:
  explicit ErrorModel(const SavedStatistics& tensor);

  bool measured(std::uint8_t block) const;

  /// Error contribution of a band at a width in eighths, relative to the tensor's variance. Block
  /// 0: all elements, in groups.
  double of_band(std::uint8_t block, int band, int eighths, double drop_price) const;

  /// Error of a plan: mean squared error over variance, weighted by the gradient. 0 for lossless
  /// plans and for Derived, whose error is that of its source.
  double of(const SavedPlan& plan, double drop_price) const;

 private:
  double nonzeros(int eighths) const;

  std::array<TransformStatistics, kTransformBlocks.size()> transforms_;
  double variance_ = 1;
  double unevenness_ = 1;            // of groups
  double transform_unevenness_ = 1;  // of blocks, which span rows but no channels
  double levelled_squared_range_ = 0;
  double nonzero_share_ = 1;
  double nonzero_squared_range_ = 0;
};

/// The index of the stored tensor that `tensor` is (transitively) derived from under these plans;
/// itself if not derived.
std::size_t root_of(std::span<const SavedStatistics> tensors, std::span<const SavedPlan> plans,
                    std::size_t tensor);

/// The relative error of every tensor as backward reads it.
std::vector<double> predicted_errors(std::span<const SavedStatistics> tensors,
                                     std::span<const SavedPlan> plans, double drop_price);

/// Predicted relative error of the gradient: sum of sensitivity * error.
double gradient_error(std::span<const SavedStatistics> tensors, std::span<const double> errors);

/// The largest relative error of a tensor that adds at most eps / 2 of the square of a weight's
/// gradient to its variance: AC-GC's closed form where gradients were measured, otherwise from the
/// tensor's sensitivity. Measured on few samples, the bound is conservative for larger batches.
double permitted_error(const SavedStatistics& tensor, double eps);

/// Corrects the factor (at most 1) applied to the planner's bound so that the measured error stays
/// below the true bound: permitted errors ignore interactions between tensors and propagation
/// through norms and smooth functions. Returns `scale` unchanged if the plans may stay. `may_grow`:
/// relaxes the bound where the error is far below it.
double corrected_scale(double scale, double measured_error, double bound, bool may_grow);

}  // namespace triaccel
