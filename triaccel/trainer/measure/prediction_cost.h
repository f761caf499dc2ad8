#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <span>

#include "triaccel/core/saved_plan.h"
#include "triaccel/core/saved_statistics.h"

namespace triaccel {

/// Seconds that predicting blocks saves in a pass of so many samples, measured on waves with the
/// sizes and plans of the tensors that are predicted; negative: it takes that much longer. NaN
/// where memory does not suffice. Waits for the device.
double seconds_saved_by_prediction(std::span<const SavedStatistics> tensors,
                                   std::span<const SavedPlan> plans, std::int64_t samples,
                                   c10::Device device);

}  // namespace triaccel
