#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/saved_statistics.h"
#include "triaccel/policies/compression/compression_options.h"
#include "triaccel/policies/policy_event.h"

namespace triaccel {

/// What the plan of all saved tensors is to achieve.
struct PlanRequest {
  std::int64_t samples = 1;                  // of a pass
  std::int64_t budget_bytes = 0;             // of a pass, for all that is held
  double drop_price = 16;                    // of a dropped band, over its energy
  double error_bound = 0;                    // above 0: in place of the budget; AC-GC's eps
  std::span<const SavedPlan> previous = {};  // by tensor; empty: none
  std::vector<bool> keep = {};  // by tensor: has not moved, and keeps its previous plan
};

/// A plan for every tensor, and what it promises.
struct SavedDecision {
  std::vector<SavedPlan> plans = {};  // by tensor
  std::vector<double> errors = {};    // likewise: mean square over variance, as backward gets it
  double gradient_error = 0;          // sum of sensitivity * error
  std::int64_t bytes = 0;
  bool fits = true;
  PolicyEvents events = {};
};

/// The bytes of a pass at a ratio over what an FP32 run holds.
std::int64_t budget_for(std::span<const SavedStatistics> tensors, double ratio,
                        std::int64_t samples);

/// Codec and bits for every tensor: the least error of the gradient that a budget buys.
///
/// What can be computed from another tensor is not stored: always where the map is affine; through
/// a ReLU where its source gets bits enough, through a smooth function where its source is exact
/// enough, and both only if the gradient's error is no larger for it. Where the least bits of a
/// kind do not fit the budget, they are lowered, and an event says so. The previous plans stay when
/// they fit and new ones would not lower the error by more than the hysteresis.
///
/// Deterministic, and quick enough for every control interval.
SavedDecision plan_saved(std::span<const SavedStatistics> tensors, const PlanRequest& request,
                         const CodecOptions& options);

}  // namespace triaccel
