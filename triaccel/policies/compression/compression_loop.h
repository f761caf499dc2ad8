#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/policies/compression/compression_options.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

inline constexpr double kUnmeasured = std::numeric_limits<double>::quiet_NaN();

/// What one control interval says about compression.
struct CompressionTick {
  std::int64_t step = 0;  // optimizer steps done
  // Variance that compression adds to the probed layers' gradients, maybe infinite.
  double compression_noise = kUnmeasured;
  double batch_noise = kUnmeasured;  // variance that the choice of samples adds to the same
  double loss = kUnmeasured;         // mean over the interval
  bool nonfinite = false;            // a loss or a gradient was
};

/// What one epoch says. In per cent, on the validation set.
struct CompressionEpoch {
  double accuracy = kUnmeasured;
  double reference = kUnmeasured;  // of a run without compression after as many epochs
};

/// What the planner is to do until the next tick.
struct CompressionOrders {
  double ratio = 1;       // over the bytes an FP32 run saves
  bool lossless = false;  // for now, whatever the ratio
  bool frozen = false;    // bytes do not shrink
  bool operator==(const CompressionOrders&) const = default;
};

/// The loop between ticks: a value, compared and stored.
struct CompressionState {
  double bytes = 1;                 // over those of the target ratio
  double best_accuracy = -1;        // per cent; negative: none yet
  double best_loss = 0;             // lowest mean at the end of an epoch; 0: none yet
  double loss_mean = 0;             // over about ten ticks
  double loss_variance = 0;         // likewise
  double noise = -1;                // last measured, over its target; negative: not yet
  std::int64_t loss_ticks = 0;      // that both know of
  std::int64_t lossless_until = 0;  // step; 0: lossy
  std::int64_t frozen_epochs = 0;   // left
  bool rise_failed = false;         // why it is frozen: a higher ratio was too noisy
  std::int64_t quiet_epochs = 0;    // in a row
  bool quiet = true;                // this epoch, so far
  bool told_limit = false;          // that bytes are at their most
  bool operator==(const CompressionState&) const = default;
};

CompressionState first_state(const LoopOptions& options);
CompressionOrders orders_of(const CompressionState& state, const LoopOptions& options);

/// The state after an interval: more bytes where compression adds too much noise, fewer where
/// it adds almost none, lossless for a while after a spike of the loss. Each change is an event.
CompressionState after_tick(CompressionState state, const CompressionTick& tick,
                            const LoopOptions& options, PolicyEvents& events);

/// The state after an epoch: more bytes when accuracy drops, fewer when all is quiet.
CompressionState after_epoch(CompressionState state, const CompressionEpoch& epoch,
                             const LoopOptions& options, PolicyEvents& events);

/// What compression adds to the mini-batch's noise, over the target; infinite where it is no
/// number.
double noise_over_target(double compression_noise, double batch_noise, const LoopOptions& options);

/// The state after a higher ratio turned out to be too noisy: halfway back to `ratio`, or
/// `all_the_way`. It does not rise again for a few epochs.
CompressionState after_failed_rise(CompressionState state, double ratio, bool all_the_way,
                                   const LoopOptions& options, PolicyEvents& events);

/// The state at a lower `ratio`, since the present one leaves attention and nonlinear functions too
/// few bits. It does not rise again for a few epochs.
CompressionState after_too_few_bits(CompressionState state, double ratio,
                                    const LoopOptions& options, PolicyEvents& events);

/// The state once errors are known better than when a rise failed: it may rise again. What accuracy
/// has frozen stays.
CompressionState after_better_plans(CompressionState state, PolicyEvents& events);

/// The bound of Error mode in force: `state.bytes` times the bytes lower the error by about its
/// fourth power where values have three bits.
double error_bound_of(const CompressionState& state, double error_bound);

std::vector<StateView> compression_state(const CompressionState& state);
/// Reads what compression_state wrote; throws StorageError.
CompressionState compression_from(const StateMap& saved);

}  // namespace triaccel
