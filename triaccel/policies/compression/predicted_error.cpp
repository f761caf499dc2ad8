#include "triaccel/policies/compression/predicted_error.h"

#include <algorithm>
#include <cmath>

#include "triaccel/base/error.h"
#include "triaccel/core/codec_registry.h"
#include "triaccel/core/saved_bytes.h"
#include "triaccel/policies/compression/band_table.h"
#include "triaccel/policies/compression/codec_rules.h"

namespace triaccel {
namespace {

constexpr double kMostBits = 8;

/// 1 / (12 (2^b - 1)^2) by whole bits; undefined for zero bits.
constexpr std::array<double, 9> kErrorOfBits = [] {
  std::array<double, 9> errors = {};
  for (std::size_t bits = 1; bits < errors.size(); ++bits) {
    const double steps = static_cast<double>((1 << bits) - 1);
    errors[bits] = 1 / (12 * steps * steps);
  }
  return errors;
}();

/// The squared range of 256 normal values is 32 variances on average.
constexpr BandStatistics kNormal = {.mean_square = 1, .squared_range = 32};
/// A normal's positive half: half of the values, 0.34 of the variance, about half the range.
constexpr BandStatistics kHalfNormal = {.mean_square = 0.5, .squared_range = 8};
constexpr double kHalfNormalVariance = 0.34;

// Fractions of the bound, with a margin for other samples and later weights.
constexpr double kHighest = 0.75;
constexpr double kWanted = 0.5;
constexpr double kFarBelow = 0.2;
constexpr double kMostGrowth = 16;  // per correction: the error law does not hold for one-bit codes

}  // namespace

double quantization_error(double bits) {
  bits = std::clamp(bits, 1.0, kMostBits);
  const auto whole = std::min(static_cast<std::size_t>(bits), kErrorOfBits.size() - 2);
  const double rest = bits - static_cast<double>(whole);
  return (1 - rest) * kErrorOfBits[whole] + rest * kErrorOfBits[whole + 1];
}

double band_error(const BandStatistics& band, double bits, double drop_price) {
  const double quantized = band.squared_range * quantization_error(bits);
  return bits >= 1 ? quantized : (1 - bits) * drop_price * band.mean_square + bits * quantized;
}

ErrorModel::ErrorModel(const SavedStatistics& tensor)
    : transforms_(tensor.transforms),
      variance_(tensor.variance),
      unevenness_(tensor.unevenness),
      transform_unevenness_(tensor.by_rows ? tensor.unevenness : 1),
      levelled_squared_range_(std::max(tensor.levelled_squared_range, kLeastLevelledRange)),
      nonzero_share_(tensor.nonzero_share),
      nonzero_squared_range_(tensor.nonzero_squared_range) {
  TransformStatistics& plain = transforms_[0];
  if (!plain.measured) {
    const bool half = tensor.kind == SavedClass::Positive;
    plain.bands[0] = half ? kHalfNormal : kNormal;
    variance_ = half ? kHalfNormalVariance : 1;
    nonzero_share_ = half ? 0.5 : 1;
    nonzero_squared_range_ = 0;
  }
  plain.bands[0].weight = 1;
  if (!(variance_ > 0)) variance_ = plain.bands[0].mean_square;
  if (!(variance_ > 0)) variance_ = 1;
  if (!(nonzero_squared_range_ > 0)) nonzero_squared_range_ = plain.bands[0].squared_range;
  for (std::size_t t = 1; t < transforms_.size(); ++t) {
    double mean = 0;
    for (int band = 0; band < kFrequencyBands; ++band)
      mean += kBandSizes[t][static_cast<std::size_t>(band)] *
              transforms_[t].bands[static_cast<std::size_t>(band)].weight;
    mean /= coefficients_of(kTransformBlocks[t]);
    for (BandStatistics& band : transforms_[t].bands)
      band.weight = mean > 0 ? band.weight / mean : 1;
  }
}

bool ErrorModel::measured(std::uint8_t block) const {
  return transforms_[transform_index(block)].measured;
}

double ErrorModel::of_band(std::uint8_t block, int band, int eighths, double drop_price) const {
  const std::size_t t = transform_index(block), b = static_cast<std::size_t>(band);
  const BandStatistics& statistics = transforms_[t].bands[b];
  if (block == 0) return band_error(statistics, eighths / 8.0, drop_price) / variance_;
  const int size = kBandSizes[t][b];
  const double rest = static_cast<double>(longer_coefficients(size, eighths)) / size;
  const double error = band_error(statistics, eighths / 8 + rest, drop_price);
  return transform_unevenness_ * size * statistics.weight * error /
         (coefficients_of(block) * variance_);
}

double ErrorModel::nonzeros(int eighths) const {
  const double share = std::max(nonzero_share_, 1.0 / kNonZeroTile);
  return share * nonzero_squared_range_ * quantization_error(eighths / 8.0 / share) / variance_;
}

double ErrorModel::of(const SavedPlan& plan, double drop_price) const {
  // Stochastic rounding in groups, with an offset that decoding does not know: what most do.
  constexpr double kAtRandom = 2;
  switch (plan.codec) {
    case SavedCodec::Raw:
    case SavedCodec::Shape:
    case SavedCodec::Mask:
    case SavedCodec::Window:
    case SavedCodec::Derived:
    case SavedCodec::Host:
      return 0;
    case SavedCodec::Groups:
      return unevenness_ * of_band(0, 0, plan.eighths, drop_price);
    case SavedCodec::Levelled:
    case SavedCodec::LevelledRows:
      return levelled_squared_range_ * quantization_error(plan.eighths / 8.0);
    case SavedCodec::NonZeros:
      return nonzeros(plan.eighths);
    case SavedCodec::Frequency: {
      double sum = 0;
      for (int band = 0; band < kFrequencyBands; ++band)
        sum += of_band(plan.block, band, plan.band_eighths[static_cast<std::size_t>(band)],
                       drop_price);
      return sum;
    }
    case SavedCodec::Registered:
      return kAtRandom * of_band(0, 0,
                                 static_cast<int>(8 * registered_codec(plan.registered).bits()),
                                 drop_price);
  }
  return 0;
}

std::size_t root_of(std::span<const SavedStatistics> tensors, std::span<const SavedPlan> plans,
                    std::size_t tensor) {
  for (std::size_t steps = 0; steps < tensors.size(); ++steps) {
    if (plans[tensor].codec != SavedCodec::Derived) return tensor;
    const std::int64_t source = tensors[tensor].source;
    require(source >= 0 && source < static_cast<std::int64_t>(tensors.size()), "root_of", "tensor ",
            tensor, " is derived but has no source");
    tensor = static_cast<std::size_t>(source);
  }
  require(false, "root_of", "tensor ", tensor, " is derived from itself");
  return tensor;
}

std::vector<double> predicted_errors(std::span<const SavedStatistics> tensors,
                                     std::span<const SavedPlan> plans, double drop_price) {
  require(tensors.size() == plans.size(), "predicted_errors", "there are ", tensors.size(),
          " tensors and ", plans.size(), " plans");
  std::vector<double> errors(tensors.size(), 0.0);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (is_lossy(plans[i].codec) && plans[i].codec != SavedCodec::Derived)
      errors[i] = ErrorModel(tensors[i]).of(plans[i], drop_price);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (plans[i].codec == SavedCodec::Derived) errors[i] = errors[root_of(tensors, plans, i)];
  return errors;
}

double gradient_error(std::span<const SavedStatistics> tensors, std::span<const double> errors) {
  double sum = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) sum += sensitivity_of(tensors[i]) * errors[i];
  return sum;
}

double permitted_error(const SavedStatistics& tensor, double eps) {
  const double added = tensor.error_gain * tensor.variance;
  if (tensor.weight_gradient_square > 0 && added > 0)
    return eps * tensor.weight_gradient_square / (2 * added);
  return eps / (2 * sensitivity_of(tensor));
}

double corrected_scale(double scale, double measured_error, double bound, bool may_grow) {
  if (!std::isfinite(measured_error)) return scale;
  if (measured_error > kHighest * bound) return scale * kWanted * bound / measured_error;
  if (!may_grow || measured_error >= kFarBelow * bound) return scale;
  const double growth =
      measured_error > 0 ? std::min(kWanted * bound / measured_error, kMostGrowth) : kMostGrowth;
  return std::min(scale * growth, 1.0);  // a larger scale would violate the bound of single weights
}

}  // namespace triaccel
