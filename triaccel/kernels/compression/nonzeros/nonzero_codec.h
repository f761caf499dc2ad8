#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/core/saved_bytes.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/compression/dither.h"

// Note [Tiles of non-zeros]
// 1,024 elements that are neighbours in memory make a tile, which is stored as one record:
//
//   8 ranges    BF16, one for every 128 elements: their largest magnitude, rounded up. Sign bit
//               set: a value is below zero, and levels reach down to minus the range, else to zero.
//               NaN: a value is not finite, and all of the group's decode to NaN.
//   room        `eighths` * 16 bytes for the codes of the non-zeros, one behind the other in memory
//               order, lowest bits first.
//
// Codes are as wide as the room allows, which the mask alone decides, so nothing that is random
// depends on values: n non-zeros get b = min(8, room / n) bits each, and one bit more as long as
// room is left, by quads of four neighbours from the tile's start. The quads at the same place of
// four neighbouring groups share a call of sixteen random offsets, see offset_words. Words are
// little-endian; the last tile is stored whole.
namespace triaccel::kernels {

/// How `count` elements of dense memory are coded. Decode with the same.
struct NonZeroCoding {
  FloatType type = FloatType::F32;
  std::int64_t count = 0;
  int eighths = 16;  // kMinNonZeroEighths to kMaxNonZeroEighths
  Rounding rounding = Rounding::Dither;
  DitherKey key = {};
};

/// Bits as of bit_mask_codec.h: one pointer is null.
struct NonZeroMask {
  const std::uint32_t* given = nullptr;  // codes the elements it has bits for
  std::uint32_t* written = nullptr;      // MaskTest::NotZero of the values
};

/// encode_nonzeros writes nonzero_bytes(count, eighths) to `records`, which start at a multiple of
/// 16 bytes, and adds to *not_finite (null: not wanted) the groups that hold a NaN, an infinity or
/// a magnitude of 2^126 and more. decode_nonzeros writes zero where the mask has no bit; in F16,
/// values within half a level of 65504 may decode to infinity. `values` may lie at any address.
/// Elements, bits and records are moved once each (F32 with 16 eighths: 4.39 bytes per element).
namespace cpu {
void encode_nonzeros(const NonZeroCoding& coding, const void* values, NonZeroMask mask,
                     void* records, std::int32_t* not_finite);
void decode_nonzeros(const NonZeroCoding& coding, const std::uint32_t* mask, const void* records,
                     void* values);
}  // namespace cpu
namespace cuda {
void encode_nonzeros(const NonZeroCoding& coding, const void* values, NonZeroMask mask,
                     void* records, std::int32_t* not_finite, cudaStream_t stream);
void decode_nonzeros(const NonZeroCoding& coding, const std::uint32_t* mask, const void* records,
                     void* values, cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
