#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "triaccel/kernels/compression/codec_map.h"
#include "triaccel/ops/compression/encoded_tensor.h"

namespace triaccel {

/// What becomes of the elements of a decoded [N, C, H, W] before they are written: see
/// kernels::CodecMap. Undefined tensors change nothing.
struct CodecMap {
  at::Tensor mean = {}, inverse_deviation = {}, weight = {}, bias = {};  // F32 [C], all or none
  kernels::Activation activation = kernels::Activation::None;
  at::Tensor gate = {};    // with Relu: encode_mask of a tensor that lies as the decoded one
  at::Tensor scales = {};  // F32 [N * C]
  at::Tensor lowest = {},
             range = {};  // F32 [C], both or none: of level_channels, for decode_groups

  // For decode_groups of rows, see row_order: levels and the mean and inverse deviation of a layer
  // norm, which are then F32 [rows], and GELU.
  bool by_rows = false;
  kernels::Gelu gelu = kernels::Gelu::None;

  bool is_of_rows() const { return by_rows || gelu != kernels::Gelu::None; }
};

/// Which channel each element of a tensor belongs to; none where decoding takes no map: it is not
/// [N, C, H, W], dense in that order or with channels last, of fewer than 2^31 elements.
std::optional<kernels::ChannelOrder> channel_order(at::IntArrayRef sizes, at::IntArrayRef strides);

/// The same for rows of channels, the last dimension, in dense memory; none: it has no such rows.
std::optional<kernels::ChannelOrder> row_order(at::IntArrayRef sizes, at::IntArrayRef strides);

/// The map as kernels take it, for a tensor of these sizes on `device`. UsageError where a tensor
/// of it has another type, shape or device.
kernels::CodecMap kernel_map(std::string_view who, const CodecMap& map, at::IntArrayRef sizes,
                             const at::Device& device);

/// A map whose channels, or rows, all go from 0 to 1, see Note [Levelled channels] in
/// kernels/compression/channel_levels.h, and what brings them back: lowest + range * value.
struct LevelledMap {
  at::Tensor values = {};
  at::Tensor lowest = {}, range = {};  // F32 [C] or [rows]
};

/// `map` is F32, BF16 or F16 [N, C, H, W] with a channel_order; its values keep their layout, and
/// `buffer` holds the rest. No autograd; one kernel on CUDA.
LevelledMap level_channels(const at::Tensor& map, const EncodeBuffer& buffer = {});

/// The same of the rows of a tensor with a row_order.
LevelledMap level_rows(const at::Tensor& rows, const EncodeBuffer& buffer = {});

}  // namespace triaccel
