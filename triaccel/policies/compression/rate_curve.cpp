#include "triaccel/policies/compression/rate_curve.h"

#include <algorithm>
#include <array>

#include "triaccel/base/divide_up.h"
#include "triaccel/core/saved_bytes.h"
#include "triaccel/policies/compression/band_table.h"
#include "triaccel/policies/compression/codec_rules.h"

namespace triaccel {
namespace {

constexpr int kMostWidth = 8;           // bits
constexpr double kOnTheLine = 1e-10;    // of a slope: rounding error
constexpr std::size_t kMostWays = 256;  // per tensor, approximately

/// Reduces points sorted by bytes to their lower convex hull.
void keep_hull(std::vector<RatePoint>& points) {
  std::sort(points.begin(), points.end(), [](const RatePoint& a, const RatePoint& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.error < b.error;
  });
  std::size_t kept = 0;
  for (const RatePoint& point : points) {
    if (kept > 0 && !(point.error < points[kept - 1].error)) continue;
    while (kept > 1) {
      const RatePoint& a = points[kept - 2];
      const RatePoint& b = points[kept - 1];
      // Removes b if clearly above the line from a to the point; on the line it makes the step
      // smaller.
      if ((a.error - b.error) * static_cast<double>(point.bytes - a.bytes) >
          (1 - kOnTheLine) * (a.error - point.error) * static_cast<double>(b.bytes - a.bytes))
        break;
      --kept;
    }
    points[kept++] = point;
  }
  points.resize(kept);
}

/// A band gets more bits.
struct BandStep {
  double per_bit = 0;  // gain per bit and coefficient
  std::uint8_t band = 0, from = 0, to = 0;
};

/// Gains of additional bits in each band, best first. A step skips widths with less gain than the
/// next (a single bit may be worse than none).
std::vector<BandStep> band_steps(const ErrorModel& model, std::uint8_t block, double drop_price) {
  std::vector<BandStep> steps;
  for (std::uint8_t band = 0; band < kFrequencyBands; ++band) {
    std::array<double, kMostWidth + 1> errors = {};
    for (int bits = 0; bits <= kMostWidth; ++bits)
      errors[static_cast<std::size_t>(bits)] = model.of_band(block, band, 8 * bits, drop_price);
    const int size = kBandSizes[transform_index(block)][band];
    std::uint8_t bits = band == 0 ? 1 : 0;  // means are never dropped
    while (bits < kMostWidth) {
      BandStep best{.band = band, .from = bits, .to = bits};
      for (std::uint8_t to = bits; ++to <= kMostWidth;) {
        const double per_bit = (errors[bits] - errors[to]) / (size * (to - bits));
        if (per_bit > best.per_bit) best = {per_bit, band, bits, to};
      }
      if (best.to == bits) break;
      steps.push_back(best);
      bits = best.to;
    }
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const BandStep& a, const BandStep& b) { return a.per_bit > b.per_bit; });
  return steps;
}

/// All points of a codec, unfiltered.
class Ways {
 public:
  Ways(const SavedStatistics& tensor, std::int64_t samples, const HeldBytes& held,
       const RateQuestion& question, const CodecOptions& options, std::vector<RatePoint>& points)
      : tensor_(tensor),
        groups_(group_codec_of(tensor, samples)),
        held_(held),
        model_(tensor),
        question_(question),
        options_(options),
        points_(points) {}

  void add_groups() {
    add_groups(groups_);
    // Levels of rows take bytes that rows which are all alike do not need.
    if (groups_ == SavedCodec::LevelledRows) add_groups(SavedCodec::Groups);
  }

  void add_nonzeros() {
    for (int eighths = kMinNonZeroEighths; eighths <= kMaxNonZeroEighths; ++eighths) {
      const SavedPlan plan{.codec = SavedCodec::NonZeros,
                           .eighths = static_cast<std::uint8_t>(eighths)};
      add(plan);
      if (mean_bits(tensor_, plan) >= kMostWidth) break;
    }
  }

  /// The best point for each number of whole bytes per chunk.
  void add_frequency(std::uint8_t block) {
    if (!model_.measured(block) || !held_.has_maps()) return;
    SavedPlan plan{.codec = SavedCodec::Frequency, .block = block, .band_eighths = {8}};
    SavedPlan fullest = plan;
    double error = model_.of(plan, question_.drop_price), least = error;
    const int whole = 8 / blocks_of_chunk(block);
    int bits = asked_bits(plan), room = stored_bits(plan);
    for (const BandStep& step : band_steps(model_, block, question_.drop_price)) {
      const int size = kBandSizes[transform_index(block)][step.band];
      int longer = 0;
      // A step that skips a width cannot be split; otherwise some coefficients come first.
      for (int eighth = step.to - step.from > 1 ? 8 : 1; eighth <= 8; ++eighth) {
        const int all = size * (step.to - step.from);
        const int next = eighth == 8 ? all : longer_coefficients(size, eighth);
        if (next == longer) continue;
        error = std::max(0.0, error - step.per_bit * (next - longer));
        bits += next - longer;
        longer = next;
        plan.band_eighths[step.band] =
            static_cast<std::uint8_t>(next == all ? 8 * step.to : 8 * step.from + eighth);
        if (bits > room) {
          add(fullest, least);
          room = round_up(bits, whole);
        }
        fullest = plan;
        least = error;
      }
    }
    add(fullest, least);
  }

 private:
  void add_groups(SavedCodec codec) {
    for (int bits = question_.least_bits; bits <= kMostWidth; ++bits)
      add({.codec = codec, .eighths = static_cast<std::uint8_t>(8 * bits)});
  }

  bool in_use(const SavedPlan& plan) const {
    const SavedPlan& before = question_.previous;
    const bool was_quantized = is_of_groups(before.codec) || before.codec == SavedCodec::NonZeros ||
                               before.codec == SavedCodec::Frequency;
    if (was_quantized) return plan.codec == before.codec && plan.block == before.block;
    const bool nonzeros = tensor_.kind == SavedClass::Positive && options_.nonzeros;
    return plan.codec == (nonzeros ? SavedCodec::NonZeros : groups_);
  }

  void add(const SavedPlan& plan) { add(plan, model_.of(plan, question_.drop_price)); }

  void add(const SavedPlan& plan, double error) {
    if (question_.least_bits > 1 && mean_bits(tensor_, plan) < question_.least_bits) return;
    const double doubt = in_use(plan) ? 1 : 1 / (1 - options_.hysteresis);
    points_.push_back({plan, held_.under(plan), doubt * error});
  }

  const SavedStatistics& tensor_;
  SavedCodec groups_;  // the way in groups that suits it
  const HeldBytes& held_;
  ErrorModel model_;
  const RateQuestion& question_;
  const CodecOptions& options_;
  std::vector<RatePoint>& points_;
};

}  // namespace

RateCurve::RateCurve(const SavedStatistics& tensor, std::int64_t samples,
                     const RateQuestion& question, const CodecOptions& options)
    : held_(tensor, samples) {
  points_.reserve(kMostWays);
  points_.push_back({{}, held_.under({}), 0});
  Ways ways(tensor, samples, held_, question, options, points_);
  ways.add_groups();
  if (tensor.kind == SavedClass::Positive) {
    if (options.nonzeros) ways.add_nonzeros();
  } else if (tensor.kind != SavedClass::Attention && options.frequency) {
    for (std::size_t t = 1; t < kTransformBlocks.size(); ++t)
      ways.add_frequency(kTransformBlocks[t]);
  }
  keep_hull(points_);
}

std::optional<RatePoint> RateCurve::part_of_step(std::size_t index, std::int64_t bytes) const {
  const RatePoint& from = points_[index];
  const RatePoint& to = points_[index + 1];
  // Bytes and error are linear between neighbours; a transform cannot be interpolated.
  if (from.plan.codec != to.plan.codec || from.plan.codec == SavedCodec::Frequency)
    return std::nullopt;
  const int steps = to.plan.eighths - from.plan.eighths;
  const std::int64_t bytes_a_step = steps > 0 ? (to.bytes - from.bytes) / steps : 0;
  const std::int64_t part = bytes_a_step > 0 ? (bytes - from.bytes) / bytes_a_step : 0;
  if (part < 1 || part >= steps) return std::nullopt;
  RatePoint point = from;
  point.plan.eighths = static_cast<std::uint8_t>(from.plan.eighths + part);
  point.bytes += part * bytes_a_step;
  point.error += (to.error - from.error) * static_cast<double>(part) / steps;
  return point;
}

}  // namespace triaccel
