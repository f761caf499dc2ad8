#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "triaccel/policies/compression/bit_allocation.h"
#include "triaccel/policies/compression/saved_planner.h"

namespace triaccel {

/// Whether it takes a good source to derive so.
constexpr bool is_conditional(Derivation derivation) {
  return derivation == Derivation::Rectified || derivation == Derivation::Smooth;
}

/// Makes plans once it is said what is derived and what keeps its plan. Curves are drawn once: both
/// choices move only their weights.
class PlanAttempts {
 public:
  PlanAttempts(std::span<const SavedStatistics> tensors, const PlanRequest& request,
               const CodecOptions& options);

  /// By tensor; whoever is derived does not keep a plan.
  SavedDecision decide(const std::vector<bool>& derived, const std::vector<bool>& kept);

  /// Derives where sources suffice: what does not hold under the plan it leads to is given up,
  /// until everything holds. Both are left as they were for the plan that is returned.
  SavedDecision decide_deriving(std::vector<bool>& derived, std::vector<bool>& kept);

  /// Bits that least widths had to be lowered by in the last decision.
  int lowered() const { return lowered_; }

 private:
  void draw_curves(int lowered);
  std::vector<const RateCurve*> curves_of(const std::vector<std::size_t>& coded) const;
  BitAllocation within_budget(const std::vector<std::size_t>& coded,
                              const std::vector<SavedPlan>& plans, std::int64_t fixed);
  BitAllocation within_errors(const std::vector<std::size_t>& coded,
                              const std::vector<SavedPlan>& plans) const;

  std::span<const SavedStatistics> tensors_;
  const PlanRequest& request_;
  const CodecOptions& options_;
  std::vector<bool> codable_;
  std::vector<std::optional<RateCurve>> curves_;  // of what can be coded
  int lowered_ = -1;
  int most_lowered_ = 0;  // one bit is left
};

}  // namespace triaccel
