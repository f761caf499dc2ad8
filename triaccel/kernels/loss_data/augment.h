#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/base/random.h"

namespace triaccel::kernels {

/// How pixels become network input. Crop and flip are draws from (seed, epoch, sample id) alone.
struct Augmentation {
  std::uint64_t seed = 0;
  std::int32_t padding = 0;  // zero pixels around the image, from which a crop of its size is cut;
                             // 0: no crop
  bool flip = false;         // mirror left-right with probability 1/2
};

/// A set of images in device memory and the batch to cut from it.
struct ImageBatch {
  const std::uint8_t* images = nullptr;      // [image_count, channels, height, width]
  const std::int64_t* sample_ids = nullptr;  // [batch]
  const std::int64_t* rows = nullptr;        // [batch]: which image; null: that of sample_ids
  const std::int64_t* epoch = nullptr;       // [1]; device data, so a captured graph sees it change
  const float* scale = nullptr;              // [channels]: output = pixel * scale + shift
  const float* shift = nullptr;              // [channels]
  std::int64_t image_count = 0;
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// `output` [batch, channels, height, width], in that memory order or, when `channels_last`, as
/// [batch, height, width, channels]. Equal bit for bit on every back end. An image number
/// outside the set gives an image of NaNs.
///
/// gather_labels: output[i] = labels[sample_ids[i]]; -1 for an id outside the set.
namespace cpu {
void augment(const ImageBatch& batch, Augmentation params, bool channels_last, float* output);
void gather_labels(const std::uint8_t* labels, std::int64_t label_count,
                   const std::int64_t* sample_ids, std::int64_t batch, std::int64_t* output);
}  // namespace cpu
namespace cuda {
void augment(const ImageBatch& batch, Augmentation params, bool channels_last, float* output,
             cudaStream_t stream);
void gather_labels(const std::uint8_t* labels, std::int64_t label_count,
                   const std::int64_t* sample_ids, std::int64_t batch, std::int64_t* output,
                   cudaStream_t stream);
}  // namespace cuda

/// Where a sample's crop lies against its image, in pixels, and whether it is mirrored.
struct CropFlip {
  std::int32_t top = 0;
  std::int32_t left = 0;
  bool mirror = false;
};

TRIACCEL_HOST_DEVICE inline CropFlip draw_crop_flip(Augmentation params, std::int64_t epoch,
                                                    std::int64_t sample_id) {
  // The constant keeps these draws apart from others of the same run seed.
  const RandomWords random =
      random_words(params.seed ^ 0x6175676d656e74ull, static_cast<std::uint64_t>(sample_id),
                   static_cast<std::uint64_t>(epoch));
  const auto padding = static_cast<std::uint32_t>(params.padding);
  const std::uint32_t positions = 2u * padding + 1u;
  CropFlip draw;
  draw.top = static_cast<std::int32_t>(bounded(random.words[0], positions) - padding);
  draw.left = static_cast<std::int32_t>(bounded(random.words[1], positions) - padding);
  draw.mirror = params.flip && (random.words[2] >> 31) != 0;
  return draw;
}

/// What the crop shows at (row, column) of one channel; `plane` is that channel of the sample's
/// image. Count is unsigned: what would lie before the image wraps around and lies behind it.
template <typename Count>
TRIACCEL_HOST_DEVICE inline std::uint8_t cropped_pixel(const std::uint8_t* plane, Count height,
                                                       Count width, Count row, Count column,
                                                       CropFlip draw) {
  const Count y = row + static_cast<Count>(draw.top);
  const Count x = (draw.mirror ? width - 1 - column : column) + static_cast<Count>(draw.left);
  return y < height && x < width ? plane[y * width + x] : std::uint8_t{0};
}

/// The product of an 8-bit and a 24-bit number is exact in FP64, so the result is the same whether
/// or not the compiler fuses the sum into it.
TRIACCEL_HOST_DEVICE inline float scaled_pixel(std::uint8_t pixel, float scale, float shift) {
  return static_cast<float>(static_cast<double>(pixel) * double{scale} + double{shift});
}

}  // namespace triaccel::kernels
