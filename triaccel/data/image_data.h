#pragma once

#include <vector>

#include "triaccel/data/dataset.h"
#include "triaccel/formats/image_set.h"

namespace triaccel {

/// Per-channel mean and standard deviation of pixels in [0, 255].
struct PixelStatistics {
  std::vector<float> mean = {};
  std::vector<float> deviation = {};  // at least one grey level
};

PixelStatistics pixel_statistics(const ImageSet& set);

struct ImageDataOptions {
  std::int64_t image_size = 0;  // pixels per side of a batch; 0: original size
  std::int64_t padding = 4;     // of the random crop
  bool flip = true;
  bool channels_last = false;  // memory format of a batch
};

/// Images stored as bytes; batches are cropped, flipped and normalized on the device.
class ImageData final : public Dataset {
 public:
  ImageData(const ImageSet& set, const PixelStatistics& statistics, const ImageDataOptions& options,
            c10::Device device);

  std::int64_t size() const override { return labels_.numel(); }
  std::int64_t bytes() const override { return pixels_.numel() + labels_.numel(); }
  void enter_epoch(const GatherOptions& options) const override;
  Batch gather(const at::Tensor& ids, const GatherOptions& options) const override;

 private:
  ImageDataOptions options_;
  at::Tensor pixels_;                  // uint8 [count, channels, height, width]
  at::Tensor labels_;                  // uint8 [count]
  at::Tensor scale_;                   // float [channels]
  at::Tensor shift_;                   // float [channels]
  at::Tensor epoch_;                   // int64 [1]: in device memory for captured steps
  mutable std::int64_t entered_ = -1;  // value of epoch_
};

}  // namespace triaccel
