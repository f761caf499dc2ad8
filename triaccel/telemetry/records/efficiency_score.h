#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "triaccel/telemetry/sink.h"

namespace triaccel {

/// The paper's efficiency score (section 4.2): accuracy in per cent over seconds of an epoch times
/// memory. Its "memory usage (%)" is per cent of 1 GB = 1e9 bytes, so the hundreds cancel; 11 of
/// its 12 printed scores follow. NaN where a quantity is not known.
inline double efficiency_score(double accuracy_percent, double seconds_per_epoch, double bytes) {
  if (!(seconds_per_epoch > 0) || !(bytes > 0)) return std::numeric_limits<double>::quiet_NaN();
  return accuracy_percent / (seconds_per_epoch * bytes / 1e9);
}

/// Of a run: its memory is the peak of reserved bytes less the resident data set.
inline double efficiency_score(const RunSummary& run) {
  return efficiency_score(run.accuracy, run.seconds_per_epoch,
                          static_cast<double>(run.peak_reserved_bytes - run.data_bytes));
}

}  // namespace triaccel
