#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/update/weight_average.h"

namespace triaccel::kernels {

/// The share of the present weights in the new average.
TRIACCEL_HOST_DEVICE inline float average_gain(WeightAverageStep step, std::int64_t applied_steps) {
  const double t = static_cast<double>(applied_steps);
  const double early = (1.0 + t) / (10.0 + t);
  const double decay = double{step.decay};
  return static_cast<float>(1.0 - (step.warm_up && early < decay ? early : decay));
}

TRIACCEL_HOST_DEVICE inline void average_element(float& average, float p, float gain) {
  average += gain * (p - average);
}

}  // namespace triaccel::kernels
