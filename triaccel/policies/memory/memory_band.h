#pragma once

#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// Where the robust set wants the peak of a step, in bytes. The shares of the options are shares of
/// the room a batch has: the limit less the bytes that are there whatever the batch. But a gauge
/// errs in proportion to all bytes, and where that is more than the shares leave, it decides
/// instead.
struct MemoryBand {
  double room = 0;          // limit less fixed bytes
  double apart = 0;         // how far two readings of the same bytes may differ
  double grow_to = 0;       // a larger batch must stay below
  double shrink_above = 0;  // another reading of what lies below is not above the limit
  double steady_gap = 0;    // by which a size that stood for long must lie outside the two
};

/// `limit_bytes` > 0. Fixed bytes that are not known of count as the batch's.
MemoryBand memory_band(double limit_bytes, double fixed_bytes, const BatchOptions& options);

}  // namespace triaccel
