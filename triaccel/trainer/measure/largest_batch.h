#pragma once

#include <cstdint>

#include "triaccel/trainer/config/run_config.h"

namespace triaccel {

/// The largest batch, in one forward pass, whose training steps fit into `budget_bytes`, the
/// resident data set not counted; within a thirty-second of itself, and 0 when not even one sample
/// fits. Found by bisection from config.train.batch on: every try is a run of its own that takes
/// two steps or runs out of memory. At most the size of the data set.
std::int64_t largest_batch(const RunConfig& config, std::int64_t budget_bytes);

}  // namespace triaccel
