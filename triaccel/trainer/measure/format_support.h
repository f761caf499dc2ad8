#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "triaccel/core/precision.h"

namespace triaccel {

/// How well one operation works in one number format on this device, as tried just now.
struct FormatSupport {
  std::string operation = {};  // "convolution", "linear", "batch norm"; forward and backward
  Precision precision = Precision::Fp32;
  std::string support = {};  // "native" or "emulated"
  std::string why = {};      // of what is not native
  double speed = 0;          // relative to FP32; 0 when it did not run
};

/// Runs every operation in every format on small tensors. Never throws: what fails is a cell of
/// the table, with the reason.
std::vector<FormatSupport> probe_formats(c10::Device device);

}  // namespace triaccel
