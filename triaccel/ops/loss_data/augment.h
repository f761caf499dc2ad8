#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/kernels/loss_data/augment.h"

namespace triaccel {

/// Cuts a batch out of a set in device memory and makes it network input, in place:
///   output [B,C,H,W] F32, contiguous or channels-last  <-  images [N,C,H,W] U8, contiguous
/// with sample_ids [B] I64, epoch [1] I64, scale and shift [C] F32 (output = pixel * scale +
/// shift), all on one device. Crop and flip depend on (params.seed, epoch, sample id) alone: the
/// same pixels in any batch, on any device. Padding pixels are zero before scale and shift, as
/// torchvision's RandomCrop(padding) followed by Normalize. With `rows` [B] I64, sample i is the
/// image rows[i] of the set, or NaN where that is -1. Enqueues only; allocates nothing.
void augment(at::Tensor& output, const at::Tensor& images, const at::Tensor& sample_ids,
             const at::Tensor& epoch, const at::Tensor& scale, const at::Tensor& shift,
             const kernels::Augmentation& params, const at::Tensor& rows = {});

/// output [B] I64  <-  labels [N] U8 at sample_ids [B] I64.
void gather_labels(at::Tensor& output, const at::Tensor& labels, const at::Tensor& sample_ids);

}  // namespace triaccel
