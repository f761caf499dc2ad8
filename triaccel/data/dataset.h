#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "triaccel/data/stored_samples.h"

namespace triaccel {

struct PixelStatistics;

/// Inputs and targets of one forward pass, on the device.
struct Batch {
  at::Tensor inputs;   // float [B, C, H, W] or [B, 3, N], or int64 [B, T]
  at::Tensor targets;  // int64 [B], or [B, T] for text
};

/// Augmentation of gathered samples.
struct GatherOptions {
  bool augment = false;    // random crop, flip and the like; off for evaluation
  std::int64_t epoch = 0;  // determines the randomness together with seed and sample index
  std::uint64_t seed = 0;
};

/// Samples stored compactly, on the device or where it can read them, and converted to batches
/// there.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual std::int64_t bytes() const = 0;                              // resident on the device
  virtual std::int64_t host_bytes() const { return 0; }                // in pinned host memory
  virtual std::vector<std::string> class_names() const { return {}; }  // of own data

  /// Called before anything is captured. Changes nothing where it throws.
  virtual void move_to(const DataPlace&) {}

  /// Normalizes images by these statistics from now on, those of captured gathers too.
  virtual void normalize_by(const PixelStatistics&) {}

  /// Updates the epoch in device memory before its first augmented sample is gathered; the only way
  /// a captured gather() learns of a new epoch.
  virtual void enter_epoch(const GatherOptions&) const {}

  /// Makes the samples `now` available to gather() and to captured gathers of as many samples, and
  /// starts reading `next` in the background. Needed by sets that are in nobody's memory as a
  /// whole; a sample that was not prepared is gathered as NaN.
  virtual void prepare(std::span<const std::int64_t> /*now*/,
                       std::span<const std::int64_t> /*next*/ = {}) const {}

  /// Gathers the samples `ids` (int64, on the device) as a batch. Only enqueues work.
  virtual Batch gather(const at::Tensor& ids, const GatherOptions& options) const = 0;
};

/// Gathers samples that nobody has prepared: waits for the device to learn their numbers.
Batch gather_unprepared(const Dataset& data, const at::Tensor& ids);

}  // namespace triaccel
