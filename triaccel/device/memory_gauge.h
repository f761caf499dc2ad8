#pragma once

#include <c10/core/Device.h>

#include <array>
#include <cstdint>

#include "triaccel/core/step_report.h"
#include "triaccel/device/cuda_memory.h"

namespace triaccel {

/// What a device's memory holds, at most held, and may hold. One gauge per run: peaks belong to the
/// device, not to the gauge.
class MemoryGauge {
 public:
  explicit MemoryGauge(c10::Device device);

  MemoryReport read() const;
  void reset_peak();

  /// The budget in bytes; 0: none. Passing it raises c10::OutOfMemoryError in whatever allocates.
  void set_limit(std::int64_t bytes);

  /// Of the peak, what a budget counts: on a CPU live tensors, on a GPU all that was reserved.
  std::int64_t counted_peak() const { return on_cuda_ ? read().reserved : read().peak; }

  /// Bytes in live tensors now: cheap enough for every step.
  std::int64_t used() const;

  /// The CPU allocator knows what each block is for; the CUDA allocator does not, so whoever
  /// allocates there says how much a purpose held at most. Ignored on the CPU.
  void note(MemoryPurpose purpose, std::int64_t bytes);
  void forget_notes() { noted_ = {}; }

  /// Gives cached, unused blocks back to the device, after an out-of-memory.
  void release_cache();

 private:
  bool on_cuda_;
  std::array<std::int64_t, kMemoryPurposes> noted_ = {};
};

/// Another budget for a while.
class [[nodiscard]] ScopedLimit {
 public:
  ScopedLimit(MemoryGauge& gauge, std::int64_t bytes) : gauge_(gauge), before_(gauge.read().limit) {
    gauge_.set_limit(bytes);
  }
  ~ScopedLimit() { gauge_.set_limit(before_); }
  ScopedLimit(const ScopedLimit&) = delete;
  ScopedLimit& operator=(const ScopedLimit&) = delete;

 private:
  MemoryGauge& gauge_;
  std::int64_t before_;
};

}  // namespace triaccel
