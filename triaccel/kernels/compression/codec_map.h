#pragma once

#include <cstdint>

#include "triaccel/kernels/norm/batch_norm.h"

namespace triaccel::kernels {

/// x * Phi(x), as torch's two forms of it compute.
enum class Gelu : std::uint8_t { None, Erf, Tanh };

/// What becomes of a decoded element x before it is written, so that a tensor which follows from a
/// encoded one element by element costs one pass over memory and no second tensor:
///
///   activation((x - mean) * (weight * inverse_deviation) + bias) * scale
///
/// All pointers null and no activation: x itself. Layer norms, GELU and levels are for the group
/// codec.
struct CodecMap {
  // What channels were levelled by (Note [Levelled channels]), F32 [channels], or rows, F32
  // [image], where it goes by rows; both or none: x is lowest + range * what was coded.
  const float* lowest = nullptr;
  const float* range = nullptr;

  // Of a norm, F32 [channels]; all four or none. Where it goes by rows (a layer norm), mean and
  // inverse deviation are F32 [image], each of which is one row of channels.
  const float* mean = nullptr;
  const float* inverse_deviation = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;

  bool by_rows = false;
  Gelu gelu = Gelu::None;  // in place of an activation
  Activation activation = Activation::None;
  const std::uint32_t* gate =
      nullptr;                    // Relu: what it has no bit for becomes zero; a bit for every
                                  // element in the order of memory, as bit_mask_codec.h has it
  const float* scales = nullptr;  // F32 [image][channel]; null: 1

  bool changes() const {
    return lowest != nullptr || mean != nullptr || gelu != Gelu::None ||
           activation != Activation::None || scales != nullptr;
  }
};

/// Which channel an element belongs to, for codecs that know no maps: element e of dense memory to
/// channel e / channel_stride % channels of image e / image_stride.
struct ChannelOrder {
  std::int64_t channels = 1, channel_stride = 1, image_stride = 1;
};

}  // namespace triaccel::kernels
