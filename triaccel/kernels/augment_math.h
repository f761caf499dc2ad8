#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/base/random.h"
#include "triaccel/kernels/augment.h"

namespace triaccel::kernels {

/// Where a sample's crop lies against its image, in pixels, and whether it is mirrored.
struct CropFlip {
  std::int64_t top = 0;
  std::int64_t left = 0;
  bool mirror = false;
};

TRIACCEL_HOST_DEVICE inline CropFlip draw_crop_flip(Augmentation how, std::int64_t epoch,
                                                    std::int64_t sample_id) {
  // The constant keeps these draws apart from others of the same run seed.
  const RandomWords random =
      random_words(how.seed ^ 0x6175676d656e74ull, static_cast<std::uint64_t>(sample_id),
                   static_cast<std::uint64_t>(epoch));
  const std::uint32_t positions = 2u * static_cast<std::uint32_t>(how.padding) + 1u;
  CropFlip draw;
  draw.top = std::int64_t{bounded(random.words[0], positions)} - how.padding;
  draw.left = std::int64_t{bounded(random.words[1], positions)} - how.padding;
  draw.mirror = how.flip && (random.words[2] >> 31) != 0;
  return draw;
}

/// The output pixel (row, column) of one channel; `plane` is that channel of the sample's image.
/// The product of an 8-bit and a 24-bit number is exact in FP64, so the result is the same whether
/// or not the compiler fuses the sum into it.
TRIACCEL_HOST_DEVICE inline float augmented_pixel(const std::uint8_t* plane, std::int64_t height,
                                                  std::int64_t width, std::int64_t row,
                                                  std::int64_t column, CropFlip draw, float scale,
                                                  float shift) {
  const std::int64_t y = row + draw.top;
  const std::int64_t x = (draw.mirror ? width - 1 - column : column) + draw.left;
  const bool inside = y >= 0 && y < height && x >= 0 && x < width;
  const int pixel = inside ? plane[y * width + x] : 0;
  return static_cast<float>(static_cast<double>(pixel) * double{scale} + double{shift});
}

}  // namespace triaccel::kernels
