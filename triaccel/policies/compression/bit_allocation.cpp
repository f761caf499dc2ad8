#include "triaccel/policies/compression/bit_allocation.h"

#include <queue>
#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

/// The next step of a curve.
struct NextStep {
  double gain_per_byte = 0;
  std::size_t curve = 0;
  std::size_t from = 0;  // index of the starting point

  bool operator<(const NextStep& other) const {
    if (gain_per_byte != other.gain_per_byte) return gain_per_byte < other.gain_per_byte;
    return curve > other.curve;
  }
};

NextStep step_at(const RateCurve& curve, double weight, std::size_t index, std::size_t from) {
  const RatePoint& here = curve.points()[from];
  const RatePoint& next = curve.points()[from + 1];
  return {weight * (here.error - next.error) / static_cast<double>(next.bytes - here.bytes), index,
          from};
}

}  // namespace

std::int64_t least_bytes(std::span<const RateCurve* const> curves) {
  std::int64_t sum = 0;
  for (const RateCurve* curve : curves) sum += curve->points().front().bytes;
  return sum;
}

BitAllocation allocate_bits(std::span<const RateCurve* const> curves,
                            std::span<const double> weights, std::int64_t budget) {
  ensure(curves.size() == weights.size(), "one weight per curve");
  BitAllocation allocation{.bytes = least_bytes(curves)};
  std::vector<NextStep> first;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    allocation.points.push_back(curves[i]->points().front());
    if (curves[i]->points().size() > 1) first.push_back(step_at(*curves[i], weights[i], i, 0));
  }
  allocation.fits = allocation.bytes <= budget;
  if (!allocation.fits) return allocation;
  std::priority_queue<NextStep> steps({}, std::move(first));
  while (!steps.empty()) {
    const NextStep step = steps.top();
    steps.pop();
    const RateCurve& curve = *curves[step.curve];
    RatePoint& here = allocation.points[step.curve];
    const RatePoint& next = curve.points()[step.from + 1];
    const std::int64_t most = budget - allocation.bytes + here.bytes;
    if (next.bytes <= most) {
      allocation.bytes += next.bytes - here.bytes;
      here = next;
      if (step.from + 2 < curve.points().size())
        steps.push(step_at(curve, weights[step.curve], step.curve, step.from + 1));
    } else if (const auto part = curve.part_of_step(step.from, most)) {
      allocation.bytes += part->bytes - here.bytes;
      here = *part;
    }
  }
  return allocation;
}

BitAllocation allocate_errors(std::span<const RateCurve* const> curves,
                              std::span<const double> permitted_errors) {
  ensure(curves.size() == permitted_errors.size(), "one error per curve");
  BitAllocation allocation;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const std::vector<RatePoint>& points = curves[i]->points();
    std::size_t at = 0;  // the last point has no error and always qualifies
    while (at + 1 < points.size() && points[at].error > permitted_errors[i]) ++at;
    RatePoint chosen = points[at];
    if (at > 0) {
      std::int64_t most = chosen.bytes;
      while (const auto part = curves[i]->part_of_step(at - 1, most - 1)) {
        if (part->error > permitted_errors[i]) break;
        chosen = *part;
        most = part->bytes;
      }
    }
    allocation.points.push_back(chosen);
    allocation.bytes += chosen.bytes;
  }
  return allocation;
}

}  // namespace triaccel
