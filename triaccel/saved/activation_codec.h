#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "triaccel/core/codec_registry.h"
#include "triaccel/kernels/compression/dither.h"
#include "triaccel/ops/compression/encoded_tensor.h"

namespace triaccel {

/// What an encoder gets in addition to the values.
struct EncodeRequest {
  kernels::DitherKey key = {};  // selects the tensor's random numbers; its step is device data
  at::Tensor not_finite = {};   // I32 [1] on the device, a counter of ranges that decode to NaN
  EncodeBuffer buffer = {};     // where to write the encoded bytes; null: allocate them
};

/// A codec for activations that a program adds to the built-in ones:
///
///   class HalfTheBits final : public ActivationCodec { … };
///   register_activation_codec(std::make_unique<HalfTheBits>());   // before training
///   config.activations.keep = "half-the-bits";                    // or --activations NAME
///
/// From then on every floating-point tensor that backward reads and that is worth compressing is
/// kept by it; masks, indices and small tensors are kept as in mode lossless.
///
/// encode and decode are called with gradients off, on the device and stream of the step. They must
/// only enqueue work: a step may be captured as a CUDA graph, where waiting for the device, copying
/// to the host or allocating outside of the current stream's pool is an error. Both may be called
/// from autograd's threads.
class ActivationCodec : public RegisteredCodec {
 public:
  /// A non-overlapping and dense tensor of F32, BF16 or F16 as contiguous U8 [bytes(sizes)].
  virtual at::Tensor encode(const at::Tensor& values, const EncodeRequest& request) const = 0;

  /// The tensor with its original sizes, strides and type; `key` is the one it was encoded with.
  virtual at::Tensor decode(const at::Tensor& encoded, at::IntArrayRef sizes,
                            at::IntArrayRef strides, at::ScalarType type,
                            const kernels::DitherKey& key) const = 0;
};

/// Adds a codec and returns its number, see register_codec.
inline std::uint8_t register_activation_codec(std::unique_ptr<const ActivationCodec> codec) {
  return register_codec(std::move(codec));
}

/// Throws UsageError for an unknown number, or for a codec that cannot encode tensors.
const ActivationCodec& activation_codec(std::uint8_t number);

}  // namespace triaccel
