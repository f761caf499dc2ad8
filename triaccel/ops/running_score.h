#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "triaccel/kernels/running_score.h"

namespace triaccel {

using kernels::RunningScore;

/// An empty score in device memory: U8 [sizeof(RunningScore)]. Start over with zero_().
at::Tensor make_running_score(at::Device device);

/// Adds one batch without waiting: `loss` is the mean over `samples` samples (F32, one element),
/// `logits` [rows, classes] in F32, BF16 or F16, `labels` [rows] I64 (negative: not counted).
void add_score(const at::Tensor& score, const at::Tensor& loss, const at::Tensor& logits,
               const at::Tensor& labels, std::int64_t samples);

/// Copies the score to the host; waits for the device.
RunningScore read_score(const at::Tensor& score);

}  // namespace triaccel
