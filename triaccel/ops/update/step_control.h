#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "triaccel/kernels/update/step_control.h"

namespace triaccel {

/// A step control tensor, U8 [sizeof(kernels::StepControl)], as kernels take it; UsageError unless
/// it is one and lies on `device`.
kernels::StepControl* step_control_of(std::string_view who, const at::Tensor& step_control,
                                      const at::Device& device);

}  // namespace triaccel
