#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <string_view>

#include "triaccel/base/error.h"
#include "triaccel/device/side_stream.h"

// The one place where a back end is chosen at run time.
namespace triaccel {

/// Calls on_cpu(), or on_cuda(stream) with `device` current. on_cuda is a generic lambda,
/// `[&](auto stream) {…}`: a build without CUDA never instantiates it, so that its kernels need no
/// definition there.
template <typename OnCpu, typename OnCuda>
void dispatch(std::string_view who, const at::Device& device, OnCpu on_cpu, OnCuda on_cuda) {
  if (device.is_cpu()) return on_cpu();
  require(device.is_cuda(), who, "tensors must lie on cpu or cuda, got ", device.str());
  if constexpr (TRIACCEL_HAS_CUDA) {
    const c10::DeviceGuard guard(device);
    on_cuda(current_cuda_stream(device));
  } else {
    throw UsageError(
        text("[", who, "] this build has no CUDA back end; configure with -DTRIACCEL_CUDA=ON"));
  }
}

/// The same for two kernels of equal parameters, the CUDA one with the stream behind them:
/// dispatch<kernels::cpu::add, kernels::cuda::add>(who, device, from, count, to).
template <auto on_cpu, auto on_cuda, typename... Arguments>
void dispatch(std::string_view who, const at::Device& device, const Arguments&... arguments) {
  dispatch(
      who, device, [&] { on_cpu(arguments...); },
      [&](auto stream) { on_cuda(arguments..., stream); });
}

}  // namespace triaccel
