#include "triaccel/policies/compression/plan_attempts.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/policies/compression/codec_rules.h"
#include "triaccel/policies/compression/predicted_error.h"
#include "triaccel/policies/memory/held_bytes.h"

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

double error_of(const BitAllocation& allocation, std::span<const double> weights) {
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) sum += weights[i] * allocation.points[i].error;
  return sum;
}

constexpr int kMostPasses = 8;

/// How much more error minimum bit widths may cost, as bits that others then lack, before they are
/// lowered.
constexpr double kPriceOfLeastBits = 1.5;

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

PlanAttempts::PlanAttempts(std::span<const SavedStatistics> tensors, const PlanRequest& request,
                           const CodecOptions& options)
    : tensors_(tensors), request_(request), options_(options), curves_(tensors.size()) {
  for (const SavedStatistics& tensor : tensors) {
    quantizable_.push_back(can_compress(tensor, request.samples));
    if (quantizable_.back())
      most_lowered_ = std::max(most_lowered_, least_bits(tensor.kind, options) - 1);
  }
  most_lowered_ = std::min(most_lowered_, request.most_lowered);
}

void PlanAttempts::draw_curves(int lowered) {
  if (lowered == lowered_) return;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const int floor = least_bits(tensors_[i].kind, options_);
    if (!quantizable_[i] || (curves_[i] && floor == 1)) continue;
    curves_[i].emplace(
        tensors_[i], request_.samples,
        RateQuestion{.drop_price = request_.drop_price,
                     .least_bits = std::max(1, floor - lowered),
                     .previous = request_.previous.empty() ? SavedPlan{} : request_.previous[i]},
        options_);
  }
  lowered_ = lowered;
}

std::vector<const RateCurve*> PlanAttempts::curves_of(
    const std::vector<std::size_t>& quantized) const {
  std::vector<const RateCurve*> curves;
  for (const std::size_t tensor : quantized) curves.push_back(&*curves_[tensor]);
  return curves;
}

BitAllocation PlanAttempts::within_budget(const std::vector<std::size_t>& quantized,
                                          const std::vector<SavedPlan>& plans, std::int64_t fixed) {
  const std::int64_t budget = request_.budget_bytes - fixed;
  std::vector<double> weight(tensors_.size(), 0.0);
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    weight[root_of(tensors_, plans, i)] += sensitivity_of(tensors_[i]);
  std::vector<double> weights;
  for (const std::size_t tensor : quantized) weights.push_back(weight[tensor]);
  const auto under = [&](int lowered) {
    draw_curves(lowered);
    return allocate_bits(curves_of(quantized), weights, budget);
  };
  const int first = lowered_;
  if (first == most_lowered_) return under(first);
  const double least = error_of(under(most_lowered_), weights);
  for (int lowered = first;; ++lowered) {
    BitAllocation allocation = under(lowered);
    if (lowered == most_lowered_ ||
        (allocation.fits && error_of(allocation, weights) <= kPriceOfLeastBits * least))
      return allocation;
  }
}

BitAllocation PlanAttempts::within_errors(const std::vector<std::size_t>& quantized,
                                          const std::vector<SavedPlan>& plans) const {
  std::vector<double> permitted(tensors_.size(), std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    double& of_root = permitted[root_of(tensors_, plans, i)];
    of_root = std::min(of_root, permitted_error(tensors_[i], request_.error_bound));
  }
  std::vector<double> errors;
  for (const std::size_t tensor : quantized) errors.push_back(permitted[tensor]);
  return allocate_errors(curves_of(quantized), errors);
}

SavedDecision PlanAttempts::decide(const std::vector<bool>& derived,
                                   const std::vector<bool>& kept) {
  draw_curves(0);
  SavedDecision decision;
  decision.plans.resize(tensors_.size());
  std::int64_t fixed = 0;
  std::vector<std::size_t> quantized;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!derived[i] && !kept[i] && quantizable_[i]) {
      quantized.push_back(i);
      continue;
    }
    decision.plans[i] = derived[i] ? SavedPlan{.codec = SavedCodec::Derived}
                        : kept[i]  ? request_.previous[i]
                                   : lossless_plan(tensors_[i]);
    fixed += HeldBytes(tensors_[i], request_.samples).under(decision.plans[i]);
  }
  const bool by_error = request_.error_bound > 0;
  const BitAllocation allocation = by_error ? within_errors(quantized, decision.plans)
                                            : within_budget(quantized, decision.plans, fixed);
  for (std::size_t i = 0; i < quantized.size(); ++i)
    decision.plans[quantized[i]] = allocation.points[i].plan;
  decision.bytes = fixed + allocation.bytes;
  decision.fits = by_error || decision.bytes <= request_.budget_bytes;
  decision.errors = predicted_errors(tensors_, decision.plans, request_.drop_price);
  decision.gradient_error = gradient_error(tensors_, decision.errors);
  return decision;
}

SavedDecision PlanAttempts::decide_deriving(std::vector<bool>& derived, std::vector<bool>& kept) {
  for (int pass = 1;; ++pass) {
    SavedDecision decision = decide(derived, kept);
    bool all_hold = true;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (!derived[i] || !is_conditional(tensors_[i].derivation)) continue;
      const std::size_t root = root_of(tensors_, decision.plans, i);
      const double bits = mean_bits(tensors_[root], decision.plans[root]);
      const bool holds =
          source_suffices(tensors_[i].derivation, bits, decision.errors[root], options_);
      all_hold = all_hold && holds;
      derived[i] = holds && pass < kMostPasses;
      kept[i] = kept[i] && derived[i];
    }
    if (all_hold || pass > kMostPasses) return decision;
  }
}

}  // namespace triaccel
