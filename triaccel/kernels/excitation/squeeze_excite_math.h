#pragma once

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/norm/batch_norm_math.h"

namespace triaccel::kernels {

/// What arrives at a sigmoid's input, from the gradient of its output `gate`.
TRIACCEL_HOST_DEVICE inline float before_gate(float gate, float gradient) {
  return gradient * gate * (1.0f - gate);
}

}  // namespace triaccel::kernels
