#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "triaccel/data/dataset.h"

namespace triaccel {

/// A data set made of two tensors with the samples in their first dimension. move_to() brings them
/// to the device, or to host memory that it reads.
class TensorData final : public Dataset {
 public:
  /// Throws UsageError unless both have the same number of samples, at least one.
  TensorData(const at::Tensor& inputs, const at::Tensor& targets);

  std::int64_t size() const override { return inputs_.tensor().size(0); }
  std::int64_t bytes() const override { return inputs_.device_bytes() + targets_.device_bytes(); }
  std::int64_t host_bytes() const override { return inputs_.host_bytes() + targets_.host_bytes(); }
  void move_to(const DataPlace& place) override;
  Batch gather(const at::Tensor& ids, const GatherOptions&) const override;

 private:
  StoredSamples inputs_, targets_;
};

}  // namespace triaccel
