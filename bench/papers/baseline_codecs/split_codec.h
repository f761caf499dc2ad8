#pragma once

#include <cstdint>

#include "bench/papers/baseline_codecs/baseline_bytes.h"
#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/compression/dither.h"

// How DIVISION (Wang et al. 2023) stores a batch of maps, to compare with: the means of blocks of
// 8 x 8 elements in BF16, and what is left of every map in codes of 2 bits as in
// three_pass_codec.h.
namespace triaccel::kernels {

/// `maps` dense maps of rows * columns elements, one behind the other. Stored are 4 bytes for every
/// map, BF16 lowest value and BF16 levels per unit of value; then the means: of whole blocks,
/// spread to the nearest elements where these do not fill the map, or of a side that is shorter
/// than a block; then 2 bits for every element.
struct SplitCoding {
  FloatType type = FloatType::F32;
  std::int64_t maps = 0;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  DitherKey key = {};
};

/// FP32 numbers that coding keeps of every map between its passes.
inline constexpr int kSplitScratch = 2;

/// encode_split writes split_bytes(maps, rows, columns) to `codes`, which start at a multiple of 4
/// bytes, and reads the values three times, as the original does at least. A map with a value that
/// is not finite decodes to NaN and counts in *not_finite (null: not wanted).
namespace cpu {
void encode_split(const SplitCoding& coding, const void* values, void* codes,
                  std::int32_t* not_finite);
void decode_split(const SplitCoding& coding, const void* codes, void* values);
}  // namespace cpu
namespace cuda {
void encode_split(const SplitCoding& coding, const void* values, void* codes, float* scratch,
                  std::int32_t* not_finite, cudaStream_t stream);
void decode_split(const SplitCoding& coding, const void* codes, void* values, cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
