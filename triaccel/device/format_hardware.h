#pragma once

#include <c10/core/Device.h>

#include <string>

#include "triaccel/core/precision.h"

namespace triaccel {

/// Empty when the hardware itself computes in the format, else what it lacks.
std::string missing_hardware(Precision precision, c10::Device device);

}  // namespace triaccel
