#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace triaccel {

/// Inputs and targets of one forward pass, on the device.
struct Batch {
  at::Tensor inputs;   // float [B, C, H, W] or [B, 3, N], or int64 [B, T]
  at::Tensor targets;  // int64 [B], or [B, T] for text
};

/// How a gathered sample is changed.
struct GatherOptions {
  bool augment = false;    // random crop, flip and the like; off for evaluation
  std::int64_t epoch = 0;  // with the seed and the sample's number, decides the randomness
  std::uint64_t seed = 0;
};

/// Samples that stay on the device in their smallest form and become a batch there.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual std::int64_t bytes() const = 0;  // resident on the device

  /// Writes to device memory what gather() reads there about the epoch: before its first sample is
  /// gathered with augmentation. A captured gather sees the next epoch by this alone.
  virtual void enter_epoch(const GatherOptions&) const {}

  /// The samples `ids` (int64, on the device) as a batch. Only enqueues.
  virtual Batch gather(const at::Tensor& ids, const GatherOptions& options) const = 0;
};

}  // namespace triaccel
