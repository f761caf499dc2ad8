#include "triaccel/data/image_data.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "triaccel/core/step_report.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/ops/loss_data/augment.h"

namespace triaccel {
namespace {

at::Tensor bytes_on_device(const std::vector<std::uint8_t>& bytes, at::IntArrayRef shape,
                           c10::Device device) {
  auto* const data = const_cast<std::uint8_t*>(bytes.data());
  return at::from_blob(data, shape, at::kByte).to(device, at::kByte, false, /*copy=*/true);
}

}  // namespace

PixelStatistics pixel_statistics(const ImageSet& set) {
  const auto plane = static_cast<std::size_t>(set.height * set.width);
  const auto channels = static_cast<std::size_t>(set.channels);
  std::vector<std::uint64_t> sum(channels), squares(channels);
  for (std::size_t at = 0; at + plane <= set.pixels.size(); at += plane) {
    // Squares of one plane fit 32 bits up to 66,000 pixels; larger planes use 64 bits.
    std::uint64_t plane_sum = 0, plane_squares = 0;
    for (std::size_t i = at; i < at + plane; ++i) {
      const std::uint32_t pixel = set.pixels[i];
      plane_sum += pixel;
      plane_squares += pixel * pixel;
    }
    sum[at / plane % channels] += plane_sum;
    squares[at / plane % channels] += plane_squares;
  }
  PixelStatistics result;
  const double count = static_cast<double>(set.count) * static_cast<double>(plane);
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = static_cast<double>(sum[c]) / count;
    const double variance = static_cast<double>(squares[c]) / count - mean * mean;
    result.mean.push_back(static_cast<float>(mean));
    result.deviation.push_back(static_cast<float>(std::sqrt(std::max(variance, 1.0))));
  }
  return result;
}

ImageData::ImageData(const ImageSet& set, const PixelStatistics& statistics,
                     const ImageDataOptions& options, c10::Device device)
    : options_(options) {
  MemoryPurposeScope purpose(MemoryPurpose::Data);
  pixels_ = bytes_on_device(set.pixels, {set.count, set.channels, set.height, set.width}, device);
  labels_ = bytes_on_device(set.labels, {set.count}, device);
  std::vector<float> scale, shift;
  for (std::size_t c = 0; c < statistics.mean.size(); ++c) {
    scale.push_back(1.0f / statistics.deviation[c]);
    shift.push_back(-statistics.mean[c] / statistics.deviation[c]);
  }
  scale_ = at::tensor(scale).to(device);
  shift_ = at::tensor(shift).to(device);
  epoch_ = at::zeros({1}, at::TensorOptions(at::kLong).device(device));
}

void ImageData::enter_epoch(const GatherOptions& options) const {
  if (entered_ == options.epoch) return;  // avoids a kernel launch per step
  epoch_.fill_(options.epoch);
  entered_ = options.epoch;
}

Batch ImageData::gather(const at::Tensor& ids, const GatherOptions& options) const {
  const auto format =
      options_.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  at::Tensor inputs = at::empty({ids.numel(), pixels_.size(1), pixels_.size(2), pixels_.size(3)},
                                at::TensorOptions(at::kFloat).device(pixels_.device()), format);
  at::Tensor targets = at::empty({ids.numel()}, ids.options());
  kernels::Augmentation how{.seed = options.seed};
  if (options.augment) {
    how.padding = static_cast<std::int32_t>(options_.padding);
    how.flip = options_.flip;
  }
  augment(inputs, pixels_, ids, epoch_, scale_, shift_, how);
  gather_labels(targets, labels_, ids);
  const std::int64_t size = options_.image_size;
  if (size > 0 && (size != inputs.size(2) || size != inputs.size(3)))
    inputs = at::upsample_bilinear2d(inputs, {size, size}, /*align_corners=*/false);
  return {inputs, targets};
}

}  // namespace triaccel
