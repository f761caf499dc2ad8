#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"

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
/// [batch, height, width, channels]. Equal bit for bit on every back end. A sample id outside the
/// set gives an image of NaNs.
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

}  // namespace triaccel::kernels
