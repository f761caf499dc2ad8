#pragma once

#include <vector>

#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/compression/codec_map_cases.h"

namespace triaccel::kernels::map_cases {

/// A map's memory on a device.
class DeviceMap {
 public:
  DeviceMap(const MapCase& made, at::Device device) : host_(made.map()) {
    const auto move = [&](const void* from, std::size_t bytes) {
      const at::Tensor host = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
      std::memcpy(host.mutable_data_ptr(), from, bytes);
      return memory_.emplace_back(host.to(device)).data_ptr();
    };
    const auto row = [&](const std::vector<float>& values) {
      return static_cast<const float*>(move(values.data(), values.size() * sizeof(float)));
    };
    device_.activation = host_.activation;
    device_.mean = row(made.mean);
    device_.inverse_deviation = row(made.inverse_deviation);
    device_.weight = row(made.weight);
    device_.bias = row(made.bias);
    if (host_.scales != nullptr) device_.scales = row(made.scales);
    if (host_.gate != nullptr)
      device_.gate =
          static_cast<const std::uint32_t*>(move(made.gate.data(), made.gate.size() * 4));
  }

  const CodecMap& map() const { return device_; }

 private:
  CodecMap host_, device_;
  std::vector<at::Tensor> memory_;
};

}  // namespace triaccel::kernels::map_cases
