#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "triaccel/core/sampler.h"
#include "triaccel/data/dataset.h"

namespace triaccel {

/// A sampler's order on the device, uploaded once per epoch, so that the sample ids of a step are a
/// view and no step needs a copy from the host.
class EpochOrder {
 public:
  /// With `data`, its upcoming samples are prepared, and those after them are read ahead.
  explicit EpochOrder(c10::Device device, const Dataset* data = nullptr)
      : device_(device), data_(data) {}

  /// The sampler's upcoming(count) as int64 on the device.
  at::Tensor upcoming(const Sampler& sampler, std::int64_t count);

 private:
  c10::Device device_;
  const Dataset* data_;
  std::int64_t epoch_ = -1;
  at::Tensor order_;
};

/// Host numbers as an int64 tensor on a device.
at::Tensor ids_on_device(std::span<const std::int64_t> ids, c10::Device device);

}  // namespace triaccel
