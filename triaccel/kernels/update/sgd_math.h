#pragma once

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/update/sgd.h"

namespace triaccel::kernels {

/// `gradient` is already unscaled and clipped.
TRIACCEL_HOST_DEVICE inline void sgd_element(float& p, float& v, float gradient,
                                             float learning_rate, SgdStep step) {
  const float direction = gradient + step.weight_decay * p;
  v = step.momentum * v + direction;
  p -= learning_rate * (step.nesterov ? direction + step.momentum * v : v);
}

}  // namespace triaccel::kernels
