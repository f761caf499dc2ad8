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

/// All images and positions of a tensor's channels, of as many channels, evenly spread, as `most`
/// elements have room for, one at least: what shows how blocks of a channel resemble each other.
at::Tensor channel_sample_of(const at::Tensor& tensor, std::int64_t most = kMostSampled);

/// Hands every tensor on to `keeper` and takes samples of some: what the planner measures. Waits
/// for the device, so not in a pass that is captured.
class SavedSampler final : public SavedTensorKeeper {
 public:
  using Sample = at::Tensor (*)(const at::Tensor& tensor, std::int64_t most);

  /// `entries`: those of the census to sample; empty: all tensors of floating-point numbers.
  SavedSampler(SavedTensorKeeper& keeper, std::vector<std::int64_t> entries,
               Sample sample = &sample_of);

  std::function<at::Tensor()> keep(const at::Tensor& tensor) override;

  std::vector<SavedSample> take_samples() { return std::move(samples_); }

 private:
  SavedTensorKeeper& keeper_;
  Sample sample_;
  std::vector<std::int64_t> entries_;  // sorted
  std::int64_t next_ = 0;
  std::vector<SavedSample> samples_;
};

}  // namespace triaccel
