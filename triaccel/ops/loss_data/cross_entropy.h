#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "triaccel/kernels/loss_data/cross_entropy.h"

namespace triaccel {

using kernels::RunningScore;

/// An empty score in device memory: U8 [sizeof(RunningScore)]. Start over with zero_().
at::Tensor make_running_score(at::Device device);

/// Copies the score to the host; waits for the device.
RunningScore read_score(const at::Tensor& score);

/// Mean cross-entropy of `logits` [rows, classes] (F32, BF16 or F16, contiguous) against `labels`
/// (I64 [rows]), smoothed as torch does it. Adds loss, hits and counts to `score`
/// (make_running_score) and returns the gradient of  weight * loss_scale * mean loss  with respect
/// to the logits, in their type. `loss_scale` is an F32 scalar on the device
/// (GradientControl::loss_scale()) or undefined: 1.
///
/// A label outside [0, classes) makes loss and gradient NaN, so that the step is skipped; it is
/// never used as an index. Only enqueues; autograd does not see it. `parts`, U8, as long as
/// kernels::cross_entropy_parts says, keeps the loss in FP64, summed over a part of the rows each.
at::Tensor cross_entropy_gradient(const at::Tensor& score, const at::Tensor& logits,
                                  const at::Tensor& labels, std::int64_t samples,
                                  double label_smoothing, double weight,
                                  const at::Tensor& loss_scale, const at::Tensor& parts = {});

/// The same without a gradient: for evaluation.
void add_cross_entropy(const at::Tensor& score, const at::Tensor& logits, const at::Tensor& labels,
                       std::int64_t samples, double label_smoothing = 0,
                       const at::Tensor& parts = {});

/// Adds the mean loss of `samples` samples, an F32 scalar on the device that was computed
/// elsewhere, to `score`; `parts` as above, for cross_entropy_parts(samples, 1).
void add_measured_loss(const at::Tensor& score, const at::Tensor& loss, std::int64_t samples,
                       const at::Tensor& parts = {});

}  // namespace triaccel
