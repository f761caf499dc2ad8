#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/policies/memory/memory_band.h"
#include "triaccel/policies/memory/memory_model.h"
#include "triaccel/policies/memory/pass_sizes.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// What the robust batch rule sees in one tick.
struct BatchSight {
  std::uint64_t mix = 0;                  // hash of the precisions that ran
  bool mix_changes = false;               // the next plan has another one: one change at a time
  std::int64_t pass = 0;                  // samples of a forward pass that ran
  double limit_bytes = 0;                 // > 0
  double fixed_bytes = 0;                 // of them taken whatever the batch, as far as is known
  std::optional<double> used_bytes = {};  // peak; empty: no full step to judge by
  bool retried = false;                   // out of memory in the interval: its peak says nothing
  std::int64_t largest_pass = 0;          // of use: the noise scale's cap
};

/// Chooses the largest pass that a fitted line of memory over batch puts below the limit: at most a
/// doubling a tick, no growth for a while after a shrink, and a clear reason to leave a size that
/// has stood for long.
class RobustBatch {
 public:
  explicit RobustBatch(const BatchOptions& options) : options_(options) {}

  /// Samples of a forward pass in the next interval.
  std::int64_t next_pass(const BatchSight& sight, const PassSizes& sizes);

  /// A pass of that size ran out of memory.
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
  bool settled() const;
  double reluctance(const MemoryBand& band) const;  // bytes a reason must be clearer by than usual
  std::int64_t shrunk(const MemoryLine& line, const MemoryBand& band, const PassSizes& sizes) const;
  std::int64_t grown(const MemoryLine& line, const MemoryBand& band, const MemoryModel& memory,
                     std::int64_t largest_pass, const PassSizes& sizes) const;

  BatchOptions options_;
  std::vector<Mix> mixes_;
  std::int64_t tick_ = 0;
  std::int64_t cool_down_ = 0;  // ticks without growth still to come
  std::int64_t stood_ = 0;      // ticks without a change
  std::uint64_t mix_ = 0;       // of the last tick
  double limit_ = 0;            // bytes, as of its last notable change
};

}  // namespace triaccel
