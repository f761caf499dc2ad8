#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "triaccel/policies/compression/rate_curve.h"
#include "triaccel/policies/compression/saved_planner.h"

namespace triaccel {

/// The chosen point on the rate curve of every tensor.
struct BitAllocation {
  std::vector<RatePoint> points = {};  // one per curve
  std::int64_t bytes = 0;
  bool fits = true;  // false: even the cheapest points exceed the budget; these are returned
};

/// Minimum total bytes.
std::int64_t least_bytes(std::span<const RateCurve* const> curves);

/// Greedy allocation: repeatedly takes the step that lowers the sum of weight * error most per
/// byte. A step that does not fit is taken partially, in eighths of a bit, or skipped. Monotone in
/// the budget and deterministic.
BitAllocation allocate_bits(std::span<const RateCurve* const> curves,
                            std::span<const double> weights, std::int64_t budget);

/// For each tensor independently: the fewest bytes within the permitted error.
BitAllocation allocate_errors(std::span<const RateCurve* const> curves,
                              std::span<const double> permitted_errors);

/// Whether this derivation depends on the accuracy of its source.
constexpr bool is_conditional(Derivation derivation) {
  return derivation == Derivation::Rectified || derivation == Derivation::Smooth;
}

/// Makes plans for a given choice of derived tensors and tensors that keep their plan. The rate
/// curves are computed once, since these choices only change their weights.
class PlanAttempts {
 public:
  PlanAttempts(std::span<const SavedStatistics> tensors, const PlanRequest& request,
               const CodecOptions& options);

  /// Flags per tensor; a derived tensor does not keep a plan.
  SavedDecision decide(const std::vector<bool>& derived, const std::vector<bool>& kept);

  /// Derives tensors whose sources are accurate enough: repeatedly drops derivations that the
  /// resulting plan does not support. On return both arguments match the returned plan.
  SavedDecision decide_deriving(std::vector<bool>& derived, std::vector<bool>& kept);

  /// Bits by which minimum widths were lowered in the last decision.
  int lowered() const { return lowered_; }

 private:
  void draw_curves(int lowered);
  std::vector<const RateCurve*> curves_of(const std::vector<std::size_t>& quantized) const;
  BitAllocation within_budget(const std::vector<std::size_t>& quantized,
                              const std::vector<SavedPlan>& plans, std::int64_t fixed);
  BitAllocation within_errors(const std::vector<std::size_t>& quantized,
                              const std::vector<SavedPlan>& plans) const;

  std::span<const SavedStatistics> tensors_;
  const PlanRequest& request_;
  const CodecOptions& options_;
  std::vector<bool> quantizable_;
  std::vector<std::optional<RateCurve>> curves_;  // of compressible tensors
  int lowered_ = -1;
  int most_lowered_ = 0;  // leaves one bit
};

}  // namespace triaccel
