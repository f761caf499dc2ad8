#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/saved_statistics.h"

namespace triaccel {

/// What a tensor takes for a pass of so many samples, under any plan.
class HeldBytes {
 public:
  HeldBytes(const SavedStatistics& tensor, std::int64_t samples);

  /// Exactly: with ranges, and with the mask where somebody needs one. Constants are there anyway
  /// and take none.
  std::int64_t under(const SavedPlan& plan) const;

  /// Whether a transform can be taken of it.
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
  std::int64_t elements_, raw_bytes_, window_taps_;
  std::int64_t mask_bytes_;  // 0: another tensor's mask serves
  bool mask_too_, derived_by_mask_;
};

/// The same for a whole pass: `plans` go by tensor.
std::int64_t held_bytes(std::span<const SavedStatistics> tensors, std::span<const SavedPlan> plans,
                        std::int64_t samples);

/// What an FP32 run holds for a pass, each tensor once: what ratios are taken over.
std::int64_t fp32_bytes(std::span<const SavedStatistics> tensors, std::int64_t samples);

}  // namespace triaccel
