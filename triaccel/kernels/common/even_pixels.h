#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"

namespace triaccel::kernels {

/// Images [samples, height, width] of dense pixels, and next to them [samples, half, half] with the
/// pixels of even row and even column alone, sides rounded up: all that a convolution of one tap
/// and stride 2 reads.
struct EvenPixels {
  std::int64_t samples = 0, height = 0, width = 0;

  std::int64_t half_height() const { return (height + 1) / 2; }
  std::int64_t half_width() const { return (width + 1) / 2; }
  std::int64_t all() const { return samples * height * width; }
  std::int64_t even() const { return samples * half_height() * half_width(); }
};

/// gather_even_pixels reads the pixels it wants and writes them one after the other;
/// scatter_even_pixels puts them back and writes zeros between them. A pixel has `pixel_bytes`, a
/// multiple of 16, as are all addresses; fewer than 2^31 times 16 bytes in `all`.
namespace cpu {
void gather_even_pixels(const EvenPixels& pixels, std::int64_t pixel_bytes, const void* all,
                        void* even);
void scatter_even_pixels(const EvenPixels& pixels, std::int64_t pixel_bytes, const void* even,
                         void* all);
}  // namespace cpu
namespace cuda {
void gather_even_pixels(const EvenPixels& pixels, std::int64_t pixel_bytes, const void* all,
                        void* even, cudaStream_t stream);
void scatter_even_pixels(const EvenPixels& pixels, std::int64_t pixel_bytes, const void* even,
                         void* all, cudaStream_t stream);
}  // namespace cuda

/// Finds one kind of pixel from the other by its number. `Divide` is made of a divisor and gives
/// quotient and remainder: the GPU's does without the hardware's slow division.
template <typename Number, typename Divide>
class EvenPixelIndex {
 public:
  explicit EvenPixelIndex(const EvenPixels& pixels)
      : width_(pixels.width),
        height_(pixels.height),
        half_width_(pixels.half_width()),
        half_height_(pixels.half_height()),
        columns_(static_cast<Number>(pixels.width)),
        rows_(static_cast<Number>(pixels.height)),
        half_columns_(static_cast<Number>(pixels.half_width())),
        half_rows_(static_cast<Number>(pixels.half_height())) {}

  /// The number among the even pixels of one of all, or -1.
  TRIACCEL_HOST_DEVICE Number even_of(Number pixel) const {
    const auto [row, column] = width_(pixel);
    const auto [sample, y] = height_(row);
    if (((y | column) & 1) != 0) return -1;
    return (sample * half_rows_ + y / 2) * half_columns_ + column / 2;
  }

  /// The other way.
  TRIACCEL_HOST_DEVICE Number all_of(Number even) const {
    const auto [row, column] = half_width_(even);
    const auto [sample, y] = half_height_(row);
    return (sample * rows_ + 2 * y) * columns_ + 2 * column;
  }

 private:
  Divide width_, height_, half_width_, half_height_;
  Number columns_, rows_, half_columns_, half_rows_;
};

/// Division as the processor does it.
class PlainDivide {
 public:
  explicit PlainDivide(std::int64_t by) : by_(by) {}
  struct Result {
    std::int64_t quotient, remainder;
  };
  Result operator()(std::int64_t number) const { return {number / by_, number % by_}; }

 private:
  std::int64_t by_;
};

}  // namespace triaccel::kernels
