#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/base/random.h"
#include "triaccel/kernels/loss_data/augment.h"

namespace triaccel::kernels {

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
