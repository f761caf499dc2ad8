#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/core/group_bytes.h"
#include "triaccel/kernels/compression/baselines/three_pass_codec.h"
#include "triaccel/ops/compression/encoded_tensor.h"

namespace triaccel {

/// How other systems store a tensor, to compare with.
struct BaselineCoding {
  SavedCodec codec = SavedCodec::GroupsActnn;  // or Bf16, GroupsGact, LowHighSplit
  kernels::DitherKey key = {};                 // its step lies on the tensor's device
  bool in_one_pass = false;  // GroupsActnn and GroupsGact on CUDA: not as their authors coded
};

/// A dense tensor of F32, BF16 or F16 as U8 [baseline_bytes(codec, sizes)]. Adds to `not_finite`
/// (I32 [1], or undefined) the groups, or maps, that will decode to NaN; none of BF16.
///
/// Neither function is seen by autograd, and both only enqueue.
at::Tensor encode_baseline(const at::Tensor& values, const BaselineCoding& coding,
                           const at::Tensor& not_finite = {}, const EncodeBuffer& room = {});

/// The tensor again, with the sizes, strides and type that it had, from the `coding` it was coded
/// with.
at::Tensor decode_baseline(const at::Tensor& codes, at::IntArrayRef sizes, at::IntArrayRef strides,
                           at::ScalarType type, const BaselineCoding& coding);

}  // namespace triaccel
