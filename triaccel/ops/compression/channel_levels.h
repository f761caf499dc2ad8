#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/ops/compression/encode_buffer.h"

namespace triaccel {

/// A map whose channels all go from 0 to 1, see Note [Levelled channels] in
/// kernels/channel_levels.h, and what brings them back: lowest + range * value.
struct LevelledMap {
  at::Tensor values = {};
  at::Tensor lowest = {}, range = {};  // F32 [C]
};

/// `map` is F32, BF16 or F16 [N, C, H, W] with a channel_order; its values keep their layout, and
/// `room` holds the rest. No autograd; one kernel on CUDA.
LevelledMap level_channels(const at::Tensor& map, const CodeRoom& room = {});

}  // namespace triaccel
