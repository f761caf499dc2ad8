#include "triaccel/kernels/loss_data/augment.h"

#include <algorithm>
#include <limits>

namespace triaccel::kernels::cpu {
namespace {

void augment_sample(const ImageBatch& batch, const std::uint8_t* image, CropFlip draw,
                    bool channels_last, float* output) {
  const auto height = static_cast<std::uint64_t>(batch.height);
  const auto width = static_cast<std::uint64_t>(batch.width);
  const auto channels = static_cast<std::uint64_t>(batch.channels);
  const std::uint64_t pixel_stride = channels_last ? channels : 1;
  const std::uint64_t channel_stride = channels_last ? 1 : height * width;
  for (std::uint64_t c = 0; c < channels; ++c) {
    const std::uint8_t* plane = image + c * height * width;
    for (std::uint64_t row = 0; row < height; ++row) {
      float* pixels = output + c * channel_stride + row * width * pixel_stride;
      for (std::uint64_t column = 0; column < width; ++column)
        pixels[column * pixel_stride] = scaled_pixel(
            cropped_pixel(plane, height, width, row, column, draw), batch.scale[c], batch.shift[c]);
    }
  }
}

}  // namespace

void augment(const ImageBatch& batch, Augmentation params, bool channels_last, float* output) {
  const std::int64_t image_size = batch.channels * batch.height * batch.width;
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < batch.batch; ++i) {
    const std::int64_t id = batch.sample_ids[i];
    const std::int64_t row = batch.rows != nullptr ? batch.rows[i] : id;
    float* sample = output + i * image_size;
    if (row < 0 || row >= batch.image_count) {
      std::fill_n(sample, image_size, std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    augment_sample(batch, batch.images + row * image_size, draw_crop_flip(params, *batch.epoch, id),
                   channels_last, sample);
  }
}

void gather_labels(const std::uint8_t* labels, std::int64_t label_count,
                   const std::int64_t* sample_ids, std::int64_t batch, std::int64_t* output) {
  for (std::int64_t i = 0; i < batch; ++i) {
    const std::int64_t id = sample_ids[i];
    output[i] = id >= 0 && id < label_count ? std::int64_t{labels[id]} : -1;
  }
}

}  // namespace triaccel::kernels::cpu
