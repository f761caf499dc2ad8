#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "triaccel/device/side_stream.h"

namespace triaccel::kernels {

/// Skips, visibly, where there is no device.
class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    at::manual_seed(1);
  }

  /// Bytes in device memory, and back.
  at::Tensor moved(const std::vector<std::uint8_t>& bytes) const {
    at::Tensor host = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
    if (!bytes.empty()) std::memcpy(host.data_ptr(), bytes.data(), bytes.size());
    return host.to(device_);
  }
  static std::vector<std::uint8_t> fetched(const at::Tensor& bytes) {
    const at::Tensor host = bytes.cpu();
    const auto* first = static_cast<const std::uint8_t*>(host.data_ptr());
    return {first, first + host.numel()};
  }

  const at::Device device_ = at::Device(at::kCUDA, 0);
  cudaStream_t stream() const { return current_cuda_stream(device_); }
};

/// A plain struct in device memory.
template <typename T>
at::Tensor on_device(const T& value, at::Device device) {
  const at::Tensor host = at::empty({static_cast<std::int64_t>(sizeof(T))}, at::kByte);
  std::memcpy(host.data_ptr(), &value, sizeof value);
  return host.to(device);
}

template <typename T>
T* pointer(const at::Tensor& bytes) {
  return static_cast<T*>(bytes.data_ptr());
}

template <typename T>
T from_device(const at::Tensor& bytes) {
  const at::Tensor host = bytes.cpu();
  T value;
  std::memcpy(&value, host.data_ptr(), sizeof value);
  return value;
}

}  // namespace triaccel::kernels
