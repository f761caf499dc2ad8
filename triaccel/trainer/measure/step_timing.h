#pragma once

#include <cstdint>
#include <optional>

#include "triaccel/core/step_report.h"
#include "triaccel/trainer/config/run_config.h"

namespace triaccel {

struct StepTimingOptions {
  int warmup_steps = -1;     // negative: 5, on a GPU 12, after which captured steps are replayed
  int samples = 20;          // timings taken
  int steps_per_sample = 1;  // steps timed together, so that a GPU is never kept waiting
};

/// How long one training step takes, with all of its parts: batch, forward, backward, gradient
/// statistics, update. Timed by the device's own clock.
struct StepTiming {
  std::int64_t batch = 0;  // samples of a step: no more than the set has
  double ms = 0;           // median
  double ms_p10 = 0;       // a tenth of the timings were shorter
  double ms_p90 = 0;
  std::int64_t peak_allocated_bytes = 0;  // the resident data set left out
  std::int64_t peak_reserved_bytes = 0;   // likewise
  std::optional<SavedCounts> saved = {};  // of the last pass, where they are not kept raw
};

StepTiming time_steps(const RunConfig& config, const StepTimingOptions& options);

/// The same of `passes` forward passes over one batch that lies on the device, as inference does
/// them: without gradients and without anything a step adds, but with norms that take the batch's
/// own statistics, as in training. Captured where steps would be.
StepTiming time_forward_passes(const RunConfig& config, const StepTimingOptions& options,
                               int passes);

}  // namespace triaccel
