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

}  // namespace triaccel::kernels
