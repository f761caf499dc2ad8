#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "triaccel/core/saved_census.h"
#include "triaccel/core/saved_plan.h"
#include "triaccel/kernels/compression/dither.h"
#include "triaccel/ops/compression/encoded_tensor.h"
#include "triaccel/saved/saved_record.h"

namespace triaccel {

/// Which random offsets a tensor is encoded with.
struct SavedOffsets {
  kernels::Rounding rounding = kernels::Rounding::Dither;
  std::uint64_t seed = 0;
  std::uint32_t tensor = 0;
  at::Tensor step = {};  // int64 [1] on the tensor's device, not to be changed while records live
};

/// A bit for each element of a dense tensor: whether it is not zero.
struct SavedMask {
  at::Tensor words = {};    // as encode_mask makes them
  double value = 1;         // of the elements with a bit
  bool two_valued = false;  // whether all of them have that value; else it says nothing
};
using SharedMask = std::shared_ptr<const SavedMask>;

/// `two_valued`: the elements that are not zero are all alike, which is checked; null where they
/// are not, or do not lie on the CPU.
SharedMask encode_saved_mask(const at::Tensor& dense, bool two_valued, const EncodeBuffer& room);

/// The elements as `layout` says, or as bool: true where a bit is set.
at::Tensor decode_saved_mask(const SavedMask& mask, const TensorLayout& layout, bool as_bool);

/// The places of maxima in a map of `rows` x `columns`. No decode function: there is no code for
/// such windows.
SavedRecord encode_saved_windows(const at::Tensor& indices, const PoolingWindows& windows,
                                 std::int64_t rows, std::int64_t columns, const EncodeBuffer& room);

/// A dense tensor by one of the codecs that keep values. NonZeros encodes what `mask` has bits for,
/// and makes it where it is null. No decode function: the tensor has no maps to transform or level.
SavedRecord encode_saved_values(const at::Tensor& dense, const SavedPlan& plan,
                                const SavedOffsets& offsets, SharedMask& mask,
                                const at::Tensor& not_finite, const EncodeBuffer& room);

}  // namespace triaccel
