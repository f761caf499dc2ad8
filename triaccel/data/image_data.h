#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "triaccel/data/dataset.h"
#include "triaccel/data/image_stream.h"
#include "triaccel/formats/image_set.h"
#include "triaccel/formats/labelled_arrays.h"

namespace triaccel {

/// Per-channel mean and standard deviation of pixels in [0, 255].
struct PixelStatistics {
  std::vector<float> mean = {};
  std::vector<float> deviation = {};  // at least one grey level
};

/// Sums over images, in any order: the same statistics in whatever parts they are added.
class PixelSums {
 public:
  explicit PixelSums(std::int64_t channels);

  void add(std::span<const std::uint8_t> image);  // [channels][pixels]
  PixelSums& operator+=(const PixelSums& other);
  PixelStatistics statistics() const;

 private:
  std::vector<std::uint64_t> sum_, squares_;  // per channel
  std::uint64_t pixels_ = 0;                  // of one channel
};

PixelStatistics pixel_statistics(const ImageSet& set);

/// Labelled images whose pixels are all there, or are read one by one where `read` is given.
struct ImageSource : LabelledImages {
  ImageReader read = {};
};

struct ImageDataOptions {
  std::int64_t image_size = 0;  // pixels per side of a batch; 0: original size
  std::int64_t padding = 4;     // of the random crop
  bool flip = true;
  bool channels_last = false;                 // memory format of a batch
  std::vector<std::string> class_names = {};  // where classes have names
};

/// Images stored as bytes, or streamed; batches are cropped, flipped and normalized on the device.
class ImageData final : public Dataset {
 public:
  ImageData(const ImageSet& set, const PixelStatistics& statistics, const ImageDataOptions& options,
            const DataPlace& place);
  ImageData(const ImageSource& source, const PixelStatistics& statistics,
            const ImageDataOptions& options, const DataPlace& place);

  std::int64_t size() const override { return labels_.numel(); }
  std::int64_t bytes() const override;
  std::int64_t host_bytes() const override { return pixels_.host_bytes(); }
  std::vector<std::string> class_names() const override { return options_.class_names; }
  void move_to(const DataPlace& place) override { pixels_ = pixels_.moved_to(place); }
  void normalize_by(const PixelStatistics& statistics) override;
  void enter_epoch(const GatherOptions& options) const override;
  void prepare(std::span<const std::int64_t> now,
               std::span<const std::int64_t> next) const override;
  Batch gather(const at::Tensor& ids, const GatherOptions& options) const override;

 private:
  void make_constants(const PixelStatistics& statistics, c10::Device device);

  ImageDataOptions options_;
  std::unique_ptr<ImageStream> stream_;  // null: all pixels are there
  StoredSamples pixels_;                 // uint8 [count, channels, height, width]; not if streamed
  at::Tensor labels_;                    // uint8 [count], or int64 for more than 256 classes
  at::Tensor scale_;                     // float [channels]
  at::Tensor shift_;                     // float [channels]
  at::Tensor epoch_;                     // int64 [1]: in device memory for captured steps
  mutable std::int64_t entered_ = -1;    // value of epoch_
};

}  // namespace triaccel
