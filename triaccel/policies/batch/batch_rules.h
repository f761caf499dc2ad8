#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/policies/curvature/gradient_noise.h"
#include "triaccel/policies/memory/memory_model.h"
#include "triaccel/policies/memory/pass_sizes.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// Tri-Accel, section 3.3: B + delta_up below rho_low * limit, B - delta_down above rho_high *
/// limit, otherwise B.
std::int64_t paper_batch(std::int64_t batch, double used_bytes, double limit_bytes,
                         const BatchOptions& options);

/// Learning-rate factor for a batch of `batch` instead of `first`, the batch the schedule was
/// chosen for.
///   linear   B / B0
///   sqrt     sqrt(B / B0)
///   adascale (noise / B0 + signal) / (noise / B + signal), Johnson et al. 2020: linear while noise
///            dominates, constant where the signal does; sqrt until both were measured
double rate_for_batch(RateRule rule, std::int64_t first, std::int64_t batch,
                      const GradientNoise& noise);

/// Input of the robust batch rule for one tick.
struct BatchInput {
  std::uint64_t mix = 0;     // hash of the precisions that ran
  bool mix_changes = false;  // the next plan has other precisions; change one thing at a time
  std::int64_t pass = 0;     // samples of a forward pass that ran
  double limit_bytes = 0;    // > 0
  double fixed_bytes = 0;    // known part that does not depend on the batch
  std::optional<double> used_bytes = {};  // peak; empty: no full step in the interval
  bool retried = false;           // ran out of memory in the interval: its peak is meaningless
  std::int64_t largest_pass = 0;  // upper bound from the gradient noise scale
};

/// Chooses the largest pass size that a linear memory model predicts to fit: at most doubling per
/// tick, no growth for some ticks after shrinking, and hysteresis for a size that has been steady.
class RobustBatch {
 public:
  explicit RobustBatch(const BatchOptions& options) : options_(options) {}

  /// Samples per forward pass in the next interval.
  std::int64_t next_pass(const BatchInput& input, const PassSizes& sizes);

  /// Records that a pass of that size ran out of memory.
  void out_of_memory(std::uint64_t mix, std::int64_t pass);

  void save(std::vector<StateView>& state) const;
  void restore(const StateMap& saved);

 private:
  struct Mix {
    std::uint64_t key = 0;
    std::int64_t tick = 0;  // of the last use
    MemoryModel memory = {};
  };

  MemoryModel& memory_of(std::uint64_t mix);
  void watch_limit(double limit, double room);
  bool steady() const;
  double hysteresis(const MemoryBand& band) const;  // bytes; 0 unless steady
  std::int64_t shrunk(const MemoryLine& line, const MemoryBand& band, const PassSizes& sizes) const;
  std::int64_t grown(const MemoryLine& line, const MemoryBand& band, const MemoryModel& memory,
                     std::int64_t largest_pass, const PassSizes& sizes) const;

  BatchOptions options_;
  std::vector<Mix> mixes_;
  std::int64_t tick_ = 0;
  std::int64_t cool_down_ = 0;     // ticks left without growth
  std::int64_t steady_ticks_ = 0;  // ticks without a change
  std::uint64_t mix_ = 0;          // of the last tick
  double limit_ = 0;               // bytes, at its last notable change
};

}  // namespace triaccel
