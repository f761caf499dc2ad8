#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/saved_statistics.h"

namespace triaccel {

/// Bytes a tensor takes per pass of a given number of samples, under any plan.
class HeldBytes {
 public:
  HeldBytes(const SavedStatistics& tensor, std::int64_t samples);

  /// Exact bytes, including ranges and masks. Constants count as zero since they exist anyway.
  std::int64_t under(const SavedPlan& plan) const;

  /// Whether a transform applies to it.
  bool has_maps() const { return has_maps_; }

 private:
  /// A transform's bytes are linear in the bits of a block.
  struct Frequency {
    std::int64_t headers = 0, per_bit = 0;
  };

  SavedClass kind_;
  std::vector<std::int64_t> sizes_;
  std::array<Frequency, kTransformBlocks.size()> frequency_ = {};
  bool has_maps_ = false;
  std::int64_t elements_, levels_, raw_bytes_, window_taps_;
  std::int64_t mask_bytes_;  // 0: shares another tensor's mask
  bool mask_too_, derived_by_mask_;
};

/// The total for a pass; `plans` per tensor.
std::int64_t held_bytes(std::span<const SavedStatistics> tensors, std::span<const SavedPlan> plans,
                        std::int64_t samples);

/// Bytes an FP32 run without fused operators stores per pass, each tensor once: the reference of
/// compression ratios.
std::int64_t fp32_bytes(std::span<const SavedStatistics> tensors, std::int64_t samples);

}  // namespace triaccel
