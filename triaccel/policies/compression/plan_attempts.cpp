#include "triaccel/policies/compression/plan_attempts.h"

#include <algorithm>
#include <limits>

#include "triaccel/policies/compression/codec_rules.h"
#include "triaccel/policies/compression/predicted_error.h"
#include "triaccel/policies/memory/held_bytes.h"

namespace triaccel {
namespace {

constexpr int kMostPasses = 8;

}  // namespace

PlanAttempts::PlanAttempts(std::span<const SavedStatistics> tensors, const PlanRequest& request,
                           const CodecOptions& options)
    : tensors_(tensors), request_(request), options_(options), curves_(tensors.size()) {
  for (const SavedStatistics& tensor : tensors) {
    quantizable_.push_back(can_code(tensor, request.samples));
    if (quantizable_.back())
      most_lowered_ = std::max(most_lowered_, least_bits(tensor.kind, options) - 1);
  }
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
  std::vector<const RateCurve*> curves = curves_of(quantized);
  while (least_bytes(curves) > budget && lowered_ < most_lowered_) {
    draw_curves(lowered_ + 1);
    curves = curves_of(quantized);
  }
  std::vector<double> weight(tensors_.size(), 0.0);
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    weight[root_of(tensors_, plans, i)] += sensitivity_of(tensors_[i]);
  std::vector<double> weights;
  for (const std::size_t tensor : quantized) weights.push_back(weight[tensor]);
  return allocate_bits(curves, weights, budget);
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
