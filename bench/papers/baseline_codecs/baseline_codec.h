#pragma once

#include <ATen/core/Tensor.h>

#include "bench/papers/baseline_codecs/baseline_bytes.h"
#include "bench/papers/baseline_codecs/three_pass_codec.h"
#include "triaccel/ops/compression/encoded_tensor.h"

namespace triaccel {

/// How another system encodes a tensor.
struct BaselineCoding {
  Baseline codec = Baseline::Actnn;
  kernels::DitherKey key = {};  // its step lies on the tensor's device
  bool in_one_pass = false;     // Actnn and Gact on CUDA: not as their authors encode
};

/// A dense tensor of F32, BF16 or F16 as U8 [baseline_bytes(codec, sizes)]. Adds to `not_finite`
/// (I32 [1], or undefined) the groups, or maps, that will decode to NaN; none of BF16.
///
/// Neither function is seen by autograd, and both only enqueue.
at::Tensor encode_baseline(const at::Tensor& values, const BaselineCoding& coding,
                           const at::Tensor& not_finite = {}, const EncodeBuffer& room = {});

/// The tensor again, with the sizes, strides and type that it had, from the `coding` it was encoded
/// with.
at::Tensor decode_baseline(const at::Tensor& codes, at::IntArrayRef sizes, at::IntArrayRef strides,
                           at::ScalarType type, const BaselineCoding& coding);

/// Registers bf16, actnn, gact and division for `--activations`; once per program.
void register_baseline_codecs();

}  // namespace triaccel
