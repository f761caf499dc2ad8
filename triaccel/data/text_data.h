#pragma once

#include <span>

#include "triaccel/data/dataset.h"

namespace triaccel {

/// A token stream split into windows of `context` tokens; the target of a token is the next one.
/// With augmentation, all windows of an epoch are shifted by one random offset, so that window
/// boundaries vary; not with held-out windows, which the shift would overlap.
class TextData final : public Dataset {
 public:
  TextData(std::span<const std::uint8_t> tokens, std::int64_t context, const DataPlace& place,
           bool may_shift = true);

  std::int64_t size() const override { return windows_; }
  std::int64_t bytes() const override { return tokens_.device_bytes(); }
  std::int64_t host_bytes() const override { return tokens_.host_bytes(); }
  void move_to(const DataPlace& place) override { tokens_ = tokens_.moved_to(place); }
  void enter_epoch(const GatherOptions& options) const override;
  Batch gather(const at::Tensor& ids, const GatherOptions& options) const override;

 private:
  StoredSamples tokens_;               // uint8 [count]
  at::Tensor steps_;                   // int64 [context + 1]: 0, 1, 2, …
  at::Tensor shift_;                   // int64 [1]: of the epoch's windows
  mutable std::int64_t entered_ = -1;  // value of shift_
  std::int64_t context_;
  bool may_shift_;
  std::int64_t windows_;
};

}  // namespace triaccel
