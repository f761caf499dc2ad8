#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/saved_statistics.h"
#include "triaccel/policies/compression/compression_options.h"
#include "triaccel/policies/compression/predicted_error.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

inline constexpr int kAnyLowered = 64;  // bits: down to one

/// Goals for the plan of all saved tensors.
struct PlanRequest {
  std::int64_t samples = 1;                  // per pass
  std::int64_t budget_bytes = 0;             // per pass, for everything stored
  double drop_price = kDropPrice;            // of a dropped band, over its energy
  double error_bound = 0;                    // > 0: replaces the budget; AC-GC's eps
  int most_lowered = kAnyLowered;            // bits by which minimum widths may be
  std::span<const SavedPlan> previous = {};  // by tensor; empty: none
  std::vector<bool> keep = {};               // per tensor: unchanged, keeps its previous plan
};

/// A plan for every tensor and its predicted error.
struct SavedDecision {
  std::vector<SavedPlan> plans = {};  // by tensor
  std::vector<double> errors = {};    // per tensor: mean square over variance, as backward reads it
  double gradient_error = 0;          // sum of sensitivity * error
  std::int64_t bytes = 0;
  bool fits = true;
  int lowered = 0;  // bits by which minimum widths were
  PolicyEvents events = {};
};

/// Bytes per pass at a compression ratio relative to FP32.
std::int64_t budget_for(std::span<const SavedStatistics> tensors, double ratio,
                        std::int64_t samples);

/// Chooses codec and bit width of every tensor to minimize the gradient error within a budget.
///
/// Tensors that can be recomputed from another are not stored: always if the map is affine; through
/// a ReLU if the source has enough bits, through a smooth function if the source is accurate
/// enough, and both only if the gradient error does not grow. If the minimum widths do not fit the
/// budget they are lowered, which is reported as an event. The previous plans stay if they fit and
/// new ones would not lower the error by more than the hysteresis. Deterministic, and fast enough
/// for every control interval.
SavedDecision plan_saved(std::span<const SavedStatistics> tensors, const PlanRequest& request,
                         const CodecOptions& options);

}  // namespace triaccel
