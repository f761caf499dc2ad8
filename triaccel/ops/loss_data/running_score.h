#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "triaccel/kernels/loss_data/running_score.h"

namespace triaccel {

using kernels::RunningScore;

/// An empty score in device memory: U8 [sizeof(RunningScore)]. Start over with zero_(). Batches are
/// added by ops/cross_entropy.h.
at::Tensor make_running_score(at::Device device);

/// Copies the score to the host; waits for the device.
RunningScore read_score(const at::Tensor& score);

}  // namespace triaccel
