#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "triaccel/data/dataset.h"

namespace triaccel {

/// A data set made of two tensors with the samples in their first dimension. They move to the
/// device with move_to().
class TensorData final : public Dataset {
 public:
  /// Throws UsageError unless both have the same number of samples, at least one.
  TensorData(at::Tensor inputs, at::Tensor targets);

  std::int64_t size() const override { return inputs_.size(0); }
  std::int64_t bytes() const override {
    return static_cast<std::int64_t>(inputs_.nbytes() + targets_.nbytes());
  }
  void move_to(c10::Device device) override;
  Batch gather(const at::Tensor& ids, const GatherOptions&) const override;

 private:
  at::Tensor inputs_, targets_;
};

}  // namespace triaccel
