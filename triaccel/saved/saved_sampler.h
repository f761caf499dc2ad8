#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "triaccel/saved/saved_tensor_engine.h"

namespace triaccel {

/// Some of a saved tensor's values, on the host.
struct SavedSample {
  std::int64_t entry = 0;                // of the census
  std::vector<std::int64_t> sizes = {};  // of the sample; as many dimensions as the tensor has
  std::vector<float> values = {};        // row by row
};

inline constexpr std::int64_t kMostSampled = 1 << 16;  // elements

/// A part of a tensor for statistics, of at most `most` elements unless it is a single map: whole
/// images evenly spread where they fit; else the first channels, in multiples of what is encoded
/// together; maps are cut to whole blocks of 8 x 8 and 7 x 7.
at::Tensor sample_of(const at::Tensor& tensor, std::int64_t most = kMostSampled);

/// Hands every tensor on to `keeper` and takes samples of those of floating-point numbers: what the
/// planner measures. Waits for the device, so not in a pass that is captured.
class SavedSampler final : public SavedTensorKeeper {
 public:
  explicit SavedSampler(SavedTensorKeeper& keeper) : keeper_(keeper) {}

  std::function<at::Tensor()> keep(const at::Tensor& tensor) override;

  std::vector<SavedSample> take_samples() { return std::move(samples_); }

 private:
  SavedTensorKeeper& keeper_;
  std::int64_t next_ = 0;
  std::vector<SavedSample> samples_;
};

}  // namespace triaccel
