#pragma once

#include "triaccel/kernels/cuda/launch.cuh"

namespace triaccel::kernels::cuda {

/// Of the current device; `who` asks.
inline int device_attribute(cudaDeviceAttr attribute, std::string_view who) {
  int device = 0, value = 0;
  static_cast<void>(cudaGetDevice(&device));
  static_cast<void>(cudaDeviceGetAttribute(&value, attribute, device));
  check_launch(who);
  return value;
}

}  // namespace triaccel::kernels::cuda
