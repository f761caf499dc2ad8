#pragma once

#include <cstdint>

#include "triaccel/policies/learning_rate_schedule.h"
#include "triaccel/trainer/config/run_config.h"

namespace triaccel {

/// How long a run is and how its learning rate goes. Where the run is counted in steps, its samples
/// are those of as many steps of the first plan. A warm-up that was asked for is what it says; the
/// one by default is five epochs, and never more than a sixth of the run.
LearningRateSchedule schedule_of(const RunConfig& config, std::int64_t samples_per_epoch);

/// The learning rate of zeroth-order layers after so many epochs.
double zeroth_order_rate_at(const RunConfig& config, double epoch);

}  // namespace triaccel
