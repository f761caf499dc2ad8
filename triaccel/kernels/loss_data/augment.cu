#include "triaccel/kernels/loss_data/augment.h"

#include "triaccel/base/divide_up.h"
#include "triaccel/kernels/common/fast_divide.cuh"
#include "triaccel/kernels/common/overlapped_launch.cuh"

namespace triaccel::kernels::cuda {
namespace {

constexpr std::uint32_t kLinesOfThread = 8;
constexpr int kBlocks = 4;  // of a multiprocessor: told of no more, the compiler keeps most pixels
                            // of a thread on their way at once

/// An output sample as lines of numbers that lie one behind the other: rows of pixels with all
/// their channels, or rows of one channel after the other.
struct Lines {
  std::uint32_t count, size;
  FastDivide divide;  // channels last: by channels, else by height

  Lines(const ImageBatch& batch, bool channels_last)
      : count(static_cast<std::uint32_t>(channels_last ? batch.height
                                                       : batch.channels * batch.height)),
        size(
            static_cast<std::uint32_t>(channels_last ? batch.channels * batch.width : batch.width)),
        divide(channels_last ? batch.channels : batch.height) {}
};

/// A thread writes one place of several lines: then all that depends on the place is computed once.
/// blockIdx.x = position in the batch, blockIdx.y = group of lines, blockIdx.z = part of a line.
template <bool kChannelsLast>
__global__ void __launch_bounds__(kThreads, kBlocks)
    augment_kernel(const __grid_constant__ ImageBatch batch, Augmentation params,
                   const __grid_constant__ Lines lines, float* output) {
  const std::uint32_t place = blockIdx.z * blockDim.x + threadIdx.x;
  const std::uint32_t first = blockIdx.y * blockDim.y * kLinesOfThread + threadIdx.y;
  const FastDivide::Result pixel_of_place = lines.divide(static_cast<std::int32_t>(place));
  wait_for_previous_kernel();
  if (place >= lines.size || first >= lines.count) return;
  const std::int64_t id = batch.sample_ids[blockIdx.x];
  const CropFlip draw = draw_crop_flip(params, *batch.epoch, id);
  const std::int64_t image_id = batch.rows != nullptr ? batch.rows[blockIdx.x] : id;
  const bool known = image_id >= 0 && image_id < batch.image_count;
  const auto height = static_cast<std::uint32_t>(known ? batch.height : 0);  // else none is read
  const auto width = static_cast<std::uint32_t>(batch.width);
  const std::uint32_t plane_size = height * width;
  const std::uint8_t* image = batch.images + std::int64_t{plane_size} * batch.channels * image_id;
  float values[kLinesOfThread];
#pragma unroll
  for (std::uint32_t i = 0; i < kLinesOfThread; ++i) {
    const std::uint32_t line = min(first + i * blockDim.y, lines.count - 1);
    std::uint32_t channel, row, column;
    if constexpr (kChannelsLast) {
      channel = pixel_of_place.remainder, row = line, column = pixel_of_place.quotient;
    } else {
      const FastDivide::Result row_of_line = lines.divide(static_cast<std::int32_t>(line));
      channel = row_of_line.quotient, row = row_of_line.remainder, column = place;
    }
    values[i] =
        scaled_pixel(cropped_pixel(image + channel * plane_size, height, width, row, column, draw),
                     batch.scale[channel], batch.shift[channel]);
  }
  float* to = output + (std::int64_t{blockIdx.x} * lines.count + first) * lines.size + place;
  const std::int64_t step = std::int64_t{blockDim.y} * lines.size;
#pragma unroll
  for (std::uint32_t i = 0; i < kLinesOfThread; ++i, to += step)
    if (first + i * blockDim.y < lines.count) *to = known ? values[i] : NAN;
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

void augment(const ImageBatch& batch, Augmentation params, bool channels_last, float* output,
             cudaStream_t stream) {
  const std::int64_t image_size = batch.channels * batch.height * batch.width;
  if (batch.batch == 0 || image_size == 0) return;
  require(image_size < (std::int64_t{1} << 31), "augment", "an image of ", image_size,
          " numbers is too large for the GPU");
  const Lines lines(batch, channels_last);
  const unsigned parts = divide_up(lines.size, unsigned{kThreads});
  const unsigned wide = divide_up(lines.size, parts);
  const unsigned high = std::min(kThreads / wide, lines.count);
  launch_overlapped("augment", channels_last ? augment_kernel<true> : augment_kernel<false>,
                    {.grid = {static_cast<unsigned>(batch.batch),
                              blocks_for(lines.count, high * kLinesOfThread), parts},
                     .threads = {wide, high}},
                    stream, batch, params, lines, output);
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
