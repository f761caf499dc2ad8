#include "triaccel/kernels/common/even_pixels.h"

#include "triaccel/kernels/common/fast_divide.cuh"
#include "triaccel/kernels/common/overlapped_launch.cuh"

namespace triaccel::kernels::cuda {
namespace {

using Index = EvenPixelIndex<std::int32_t, FastDivide>;

constexpr int kPacksOfThread = 4;  // of 16 bytes, on their way at once

/// made(pixel, pack of the pixel) at every place of `to`; a block writes one run.
template <typename Made>
__device__ void write_packs(uint4* to, std::int64_t count, const FastDivide& packs, Made made) {
  const std::int64_t first =
      std::int64_t{blockIdx.x} * blockDim.x * kPacksOfThread + std::int64_t{threadIdx.x};
  uint4 values[kPacksOfThread];
  wait_for_previous_kernel();
#pragma unroll
  for (int k = 0; k < kPacksOfThread; ++k) {
    const std::int64_t i = min(first + k * std::int64_t{blockDim.x}, count - 1);
    const FastDivide::Result place = packs(static_cast<std::int32_t>(i));
    values[k] = made(place.quotient, place.remainder);
  }
#pragma unroll
  for (int k = 0; k < kPacksOfThread; ++k) {
    const std::int64_t i = first + k * std::int64_t{blockDim.x};
    if (i < count) to[i] = values[k];
  }
}

__global__ void __launch_bounds__(kThreads)
    take_kernel(const uint4* all, uint4* even, Index index, FastDivide packs, std::int64_t wide,
                std::int64_t count) {
  write_packs(even, count, packs, [&](std::int32_t pixel, std::int32_t pack) {
    return all[index.all_of(pixel) * wide + pack];
  });
}

__global__ void __launch_bounds__(kThreads)
    scatter_kernel(const uint4* even, uint4* all, Index index, FastDivide packs, std::int64_t wide,
                   std::int64_t count) {
  write_packs(all, count, packs, [&](std::int32_t pixel, std::int32_t pack) {
    const std::int32_t source = index.even_of(pixel);
    return source < 0 ? uint4{} : even[source * wide + pack];
  });
}

using Kernel = void (*)(const uint4*, uint4*, Index, FastDivide, std::int64_t, std::int64_t);

void launch(std::string_view who, Kernel kernel, const EvenPixels& pixels, std::int64_t written,
            std::int64_t pixel_bytes, const void* from, void* to, cudaStream_t stream) {
  const std::int64_t wide = pixel_bytes / 16, count = written * wide;
  if (count == 0) return;
  launch_overlapped(who, kernel,
                    {.grid = blocks_for(count, kThreads * kPacksOfThread), .threads = kThreads},
                    stream, static_cast<const uint4*>(from), static_cast<uint4*>(to), Index(pixels),
                    FastDivide(wide), wide, count);
}

}  // namespace

void gather_even_pixels(const EvenPixels& pixels, std::int64_t pixel_bytes, const void* all,
                        void* even, cudaStream_t stream) {
  launch("gather_even_pixels", take_kernel, pixels, pixels.even(), pixel_bytes, all, even, stream);
}

void scatter_even_pixels(const EvenPixels& pixels, std::int64_t pixel_bytes, const void* even,
                         void* all, cudaStream_t stream) {
  launch("scatter_even_pixels", scatter_kernel, pixels, pixels.all(), pixel_bytes, even, all,
         stream);
}

}  // namespace triaccel::kernels::cuda
