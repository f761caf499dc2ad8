#include "triaccel/policies/compression/similarity_meter.h"

#include <algorithm>
#include <cmath>

namespace triaccel {
namespace {

constexpr double kNoise = 1e-3;  // relative to the largest value of a sketch

float root(double square) { return static_cast<float>(std::sqrt(std::max(0.0, square))); }

}  // namespace

SavedSketch sketch_of(const SavedStatistics& tensor) {
  SavedSketch sketch;
  std::size_t at = 0;
  for (const TransformStatistics& transform : tensor.transforms)
    for (const BandStatistics& band : transform.bands) {
      sketch.values[at++] = transform.measured ? root(band.mean_square) : 0;
      sketch.values[at++] = transform.measured ? root(band.squared_range) : 0;
    }
  sketch.values[at++] = root(tensor.variance);
  sketch.values[at] = static_cast<float>(tensor.nonzero_share);
  return sketch;
}

bool has_changed(const SavedSketch& before, const SavedSketch& now, double limit) {
  const std::size_t density = before.values.size() - 1;
  double largest = 0;
  for (std::size_t i = 0; i < density; ++i)
    largest = std::max(
        {largest, static_cast<double>(before.values[i]), static_cast<double>(now.values[i])});
  for (std::size_t i = 0; i <= density; ++i) {
    const double a = before.values[i], b = now.values[i];
    const double larger = std::max(a, b);
    const bool counts = larger > (i == density ? 0 : kNoise * largest);
    // NaN counts as changed.
    if (counts && !(std::abs(a - b) <= limit * larger)) return true;
    if (std::isnan(a) != std::isnan(b)) return true;
  }
  return false;
}

std::vector<bool> unchanged_tensors(std::span<const SavedSketch> before,
                                    std::span<const SavedStatistics> tensors, double limit) {
  std::vector<bool> unchanged(tensors.size(), false);
  for (std::size_t i = 0; before.size() == tensors.size() && i < tensors.size(); ++i)
    unchanged[i] = !has_changed(before[i], sketch_of(tensors[i]), limit);
  return unchanged;
}

}  // namespace triaccel
