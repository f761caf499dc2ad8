#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/core/saved_bytes.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/compression/codec_map.h"
#include "triaccel/kernels/compression/dither.h"

// Note [Tiles of groups]
// 1,024 elements that are neighbours in memory make a tile of four groups. 32 lanes share it, eight
// a group: row k = 0..7 of a group is 32 neighbours, four for each of its lanes, so that a lane has
// 32 elements at the places 4k + 0..3. Place p has the random offset p % 8 of the lane's call p
// / 8.
//
// With `eighths` = 8 * bits + rest every code has `bits` bits, and one more at odd places where
// rest contains 4, at 2 and 6 of every eight where it contains 2, at 4 where it contains 1. These
// parts follow each other, each for all tiles:
//
//   words    [tile][bits][lane]   the lane's codes without the extra bit, one behind the other
//   extra 4  [tile][lane]         16 bits: the lowest bit of the lane's codes at odd places
//   extra 2  [tile][lane]         8 bits, likewise
//   ranges   [tile][group]        BF16 lowest value, rounded down; BF16 range above it, rounded up
//   extra 1  [tile][lane / 2]     4 bits, likewise, those of the odd lane above
//
// Ranges are rounded before anything is encoded with them. A group that holds a NaN or an infinity,
// or whose range BF16 has no number for, has NaN as its lowest value and decodes to NaN. Elements
// that the last tile lacks repeat their group's first one, or are zeros where there is none. Bits
// and bytes are little-endian.
namespace triaccel::kernels {

/// How `count` elements of dense memory are coded. Decode with the same.
struct GroupCoding {
  FloatType type = FloatType::F32;
  std::int64_t count = 0;
  int eighths = 16;  // kMinGroupEighths to kMaxGroupEighths
  Rounding rounding = Rounding::Dither;
  DitherKey key = {};
};

/// encode_groups writes group_bytes(count, eighths) to `codes`, which start at a multiple of 16
/// bytes, and adds to *not_finite (null: not wanted) the groups that decode to NaN. `values` may
/// lie at any address. Values and codes are moved once each (F32 with 16 eighths: 4.27 bytes an
/// element). decode_groups writes what `map` makes of the elements, whose channels lie as `order`
/// says; its gate has 1/8 byte per element more to read.
namespace cpu {
void encode_groups(const GroupCoding& coding, const void* values, void* codes,
                   std::int32_t* not_finite);
void decode_groups(const GroupCoding& coding, const void* codes, void* values,
                   const CodecMap& map = {}, const ChannelOrder& order = {});
}  // namespace cpu
namespace cuda {
void encode_groups(const GroupCoding& coding, const void* values, void* codes,
                   std::int32_t* not_finite, cudaStream_t stream);
void decode_groups(const GroupCoding& coding, const void* codes, void* values, const CodecMap& map,
                   const ChannelOrder& order, cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
