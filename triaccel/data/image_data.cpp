#include "triaccel/data/image_data.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "triaccel/core/step_report.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/ops/loss_data/augment.h"

namespace triaccel {
namespace {

/// The pixels of an ImageSet or an ImageSource.
template <typename Images>
StoredSamples stored_pixels(const Images& images, const DataPlace& place) {
  return StoredSamples::copy(images.pixels.data(),
                             {images.count, images.channels, images.height, images.width},
                             at::kByte, place);
}

at::Tensor byte_labels(const std::vector<std::uint8_t>& labels, c10::Device device) {
  return StoredSamples::copy(labels.data(), {std::ssize(labels)}, at::kByte, device).tensor();
}

}  // namespace

PixelSums::PixelSums(std::int64_t channels)
    : sum_(static_cast<std::size_t>(channels)), squares_(static_cast<std::size_t>(channels)) {}

void PixelSums::add(std::span<const std::uint8_t> image) {
  const std::size_t plane = image.size() / sum_.size();
  for (std::size_t c = 0; c < sum_.size(); ++c)
    for (const std::uint32_t pixel : image.subspan(c * plane, plane)) {
      sum_[c] += pixel;
      squares_[c] += pixel * pixel;
    }
  pixels_ += plane;
}

PixelSums& PixelSums::operator+=(const PixelSums& other) {
  for (std::size_t c = 0; c < sum_.size(); ++c) {
    sum_[c] += other.sum_[c];
    squares_[c] += other.squares_[c];
  }
  pixels_ += other.pixels_;
  return *this;
}

PixelStatistics PixelSums::statistics() const {
  PixelStatistics result;
  const auto count = static_cast<double>(pixels_);
  for (std::size_t c = 0; c < sum_.size(); ++c) {
    const double mean = static_cast<double>(sum_[c]) / count;
    const double variance = static_cast<double>(squares_[c]) / count - mean * mean;
    result.mean.push_back(static_cast<float>(mean));
    result.deviation.push_back(static_cast<float>(std::sqrt(std::max(variance, 1.0))));
  }
  return result;
}

PixelStatistics pixel_statistics(const ImageSet& set) {
  PixelSums sums(set.channels);
  const auto image = static_cast<std::size_t>(set.channels * set.height * set.width);
  for (std::size_t at = 0; at + image <= set.pixels.size(); at += image)
    sums.add(std::span(set.pixels).subspan(at, image));
  return sums.statistics();
}

ImageData::ImageData(const ImageSet& set, const PixelStatistics& statistics,
                     const ImageDataOptions& options, const DataPlace& place)
    : options_(options) {
  MemoryPurposeScope purpose(MemoryPurpose::Data);
  pixels_ = stored_pixels(set, place);
  labels_ = byte_labels(set.labels, place.device);
  make_constants(statistics, place.device);
}

ImageData::ImageData(const ImageSource& source, const PixelStatistics& statistics,
                     const ImageDataOptions& options, const DataPlace& place)
    : options_(options) {
  MemoryPurposeScope purpose(MemoryPurpose::Data);
  if (source.read)
    stream_ = std::make_unique<ImageStream>(
        source.read, source.count, std::array{source.channels, source.height, source.width},
        place.device);
  else
    pixels_ = stored_pixels(source, place);
  const auto most = std::ranges::max_element(source.labels);
  if (most == source.labels.end() || *most < 256)
    labels_ = byte_labels({source.labels.begin(), source.labels.end()}, place.device);
  else
    labels_ = at::tensor(at::ArrayRef<std::int32_t>(source.labels)).to(place.device, at::kLong);
  make_constants(statistics, place.device);
}

void ImageData::make_constants(const PixelStatistics& statistics, c10::Device device) {
  const at::TensorOptions floats(device);
  const std::int64_t channels = std::ssize(statistics.mean);
  scale_ = at::empty({channels}, floats);
  shift_ = at::empty({channels}, floats);
  epoch_ = at::zeros({1}, floats.dtype(at::kLong));
  normalize_by(statistics);
}

void ImageData::normalize_by(const PixelStatistics& statistics) {
  std::vector<float> scale, shift;
  for (std::size_t c = 0; c < statistics.mean.size(); ++c) {
    scale.push_back(1.0f / statistics.deviation[c]);
    shift.push_back(-statistics.mean[c] / statistics.deviation[c]);
  }
  scale_.copy_(at::tensor(scale));
  shift_.copy_(at::tensor(shift));
}

std::int64_t ImageData::bytes() const {
  return static_cast<std::int64_t>(labels_.nbytes()) +
         (stream_ ? stream_->bytes() : pixels_.device_bytes());
}

void ImageData::prepare(std::span<const std::int64_t> now,
                        std::span<const std::int64_t> next) const {
  if (stream_) stream_->prepare(now, next);
}

void ImageData::enter_epoch(const GatherOptions& options) const {
  if (entered_ == options.epoch) return;  // avoids a kernel launch per step
  epoch_.fill_(options.epoch);
  entered_ = options.epoch;
}

Batch ImageData::gather(const at::Tensor& ids, const GatherOptions& options) const {
  const auto format =
      options_.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const at::Tensor& images = stream_ ? stream_->window() : pixels_.tensor();
  const at::Tensor rows = stream_ ? stream_->row_of().index_select(0, ids) : at::Tensor();
  at::Tensor inputs = at::empty({ids.numel(), images.size(1), images.size(2), images.size(3)},
                                at::TensorOptions(at::kFloat).device(images.device()), format);
  at::Tensor targets = at::empty({ids.numel()}, ids.options());
  kernels::Augmentation how{.seed = options.seed};
  if (options.augment) {
    how.padding = static_cast<std::int32_t>(options_.padding);
    how.flip = options_.flip;
  }
  augment(inputs, images, ids, epoch_, scale_, shift_, how, rows);
  if (labels_.scalar_type() == at::kByte)
    gather_labels(targets, labels_, ids);
  else
    at::index_select_out(targets, labels_, 0, ids);
  const std::int64_t size = options_.image_size;
  if (size > 0 && (size != inputs.size(2) || size != inputs.size(3)))
    inputs = at::upsample_bilinear2d(inputs, {size, size}, /*align_corners=*/false);
  return {inputs, targets};
}

}  // namespace triaccel
