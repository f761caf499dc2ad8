#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <string_view>

#include "triaccel/base/error.h"
#include "triaccel/device/current_stream.h"

namespace triaccel {

/// Calls on_cpu(), or on_cuda(stream) with `device` current: the one place where a back end is
/// chosen at run time.
template <typename OnCpu, typename OnCuda>
void dispatch(std::string_view who, const at::Device& device, OnCpu on_cpu, OnCuda on_cuda) {
  if (device.is_cpu()) return on_cpu();
  require(device.is_cuda(), who, "tensors must lie on cpu or cuda, got ", device.str());
  const c10::DeviceGuard guard(device);
  on_cuda(current_cuda_stream(device));
}

}  // namespace triaccel
