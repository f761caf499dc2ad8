#pragma once

#include <ATen/core/Tensor.h>

namespace triaccel {

// Squeeze-and-excitation (Hu et al., 2018): a map is multiplied by gates, one number per sample and
// channel, which are computed from the mean of every channel over the pixels. Maps are [N, C, H,
// W], dense, channels-last, of F32, BF16 or F16; gates, means and their gradients are [N, C, 1, 1]
// of the map's type. Arithmetic is FP32, rounded once. Nothing here is seen by autograd; all only
// enqueue, one kernel each on CUDA, and give the same bits every time.

/// Whether the functions below take them; `gates` may be undefined.
bool gates_channels(const at::Tensor& map, const at::Tensor& gates);

/// The mean over the pixels. Reads the map once.
at::Tensor pixel_mean(const at::Tensor& map);

/// map * gates. Reads the map once and writes the result.
at::Tensor gate_channels(const at::Tensor& map, const at::Tensor& gates);

/// The gradient of the gates: the sum over the pixels of output_gradient * map. Reads both once.
at::Tensor gates_gradient(const at::Tensor& output_gradient, const at::Tensor& map);

/// The gradient of a map [N, C, H, W] whose gated product and whose mean were both used:
/// output_gradient * gates + mean_gradient / (H * W). Either half is optional: undefined
/// tensors (output_gradient and gates go together). Reads output_gradient once, writes the result.
at::Tensor gated_map_gradient(const at::Tensor& output_gradient, const at::Tensor& gates,
                              const at::Tensor& mean_gradient, at::IntArrayRef map_sizes);

}  // namespace triaccel
