#include "triaccel/kernels/augment.h"

#include "triaccel/kernels/augment_math.h"
#include "triaccel/kernels/cuda/overlapped_launch.cuh"

namespace triaccel::kernels::cuda {
namespace {

constexpr std::uint32_t kPixelsPerBlock = kThreads * 2;

/// blockIdx.x = position in the batch, blockIdx.y = piece of the sample, in the output's order.
__global__ void __launch_bounds__(kThreads)
    augment_kernel(ImageBatch batch, Augmentation how, bool channels_last, float* output) {
  wait_for_previous_kernel();
  const std::int64_t id = batch.sample_ids[blockIdx.x];
  const bool known = id >= 0 && id < batch.image_count;
  const CropFlip draw = draw_crop_flip(how, *batch.epoch, id);
  // 32 bits: dividing 64-bit numbers takes longer than all the rest.
  const auto channels = static_cast<std::uint32_t>(batch.channels);
  const auto width = static_cast<std::uint32_t>(batch.width);
  const std::uint32_t plane_size = static_cast<std::uint32_t>(batch.height) * width;
  const std::uint32_t image_size = channels * plane_size;
  const std::uint8_t* image = batch.images + (known ? id : 0) * image_size;
  float* sample = output + std::int64_t{blockIdx.x} * image_size;
  const std::uint32_t begin = blockIdx.y * kPixelsPerBlock;
  const std::uint32_t end = min(begin + kPixelsPerBlock, image_size);
  for (std::uint32_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const std::uint32_t channel = channels_last ? i % channels : i / plane_size;
    const std::uint32_t pixel = channels_last ? i / channels : i % plane_size;
    sample[i] = known ? augmented_pixel(image + channel * plane_size, batch.height, batch.width,
                                        pixel / width, pixel % width, draw, batch.scale[channel],
                                        batch.shift[channel])
                      : NAN;
  }
}

__global__ void __launch_bounds__(kThreads)
    gather_kernel(const std::uint8_t* labels, std::int64_t label_count,
                  const std::int64_t* sample_ids, std::int64_t batch, std::int64_t* output) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  wait_for_previous_kernel();
  if (i >= batch) return;
  const std::int64_t id = sample_ids[i];
  output[i] = id >= 0 && id < label_count ? std::int64_t{labels[id]} : -1;
}

}  // namespace

void augment(const ImageBatch& batch, Augmentation how, bool channels_last, float* output,
             cudaStream_t stream) {
  const std::int64_t image_size = batch.channels * batch.height * batch.width;
  if (batch.batch == 0 || image_size == 0) return;
  require(image_size < (std::int64_t{1} << 31), "augment", "an image of ", image_size,
          " numbers is too large for the GPU");
  const dim3 grid(static_cast<unsigned>(batch.batch), blocks_for(image_size, kPixelsPerBlock));
  launch_overlapped("augment", augment_kernel, {.grid = grid, .threads = kThreads}, stream, batch,
                    how, channels_last, output);
}

void gather_labels(const std::uint8_t* labels, std::int64_t label_count,
                   const std::int64_t* sample_ids, std::int64_t batch, std::int64_t* output,
                   cudaStream_t stream) {
  if (batch == 0) return;
  launch_overlapped("gather_labels", gather_kernel,
                    {.grid = blocks_for(batch, kThreads), .threads = kThreads}, stream, labels,
                    label_count, sample_ids, batch, output);
}

}  // namespace triaccel::kernels::cuda
