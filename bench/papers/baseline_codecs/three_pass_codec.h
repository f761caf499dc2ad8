#pragma once

#include <cstdint>

#include "bench/papers/baseline_codecs/baseline_bytes.h"
#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/compression/dither.h"

// How ActNN (Chen et al. 2021) and GACT (Liu et al. 2022) store a tensor, to compare with: groups
// of 256 elements, codes of whole bits rounded stochastically within FP32 ranges, and ranges that
// are rounded to BF16 only afterwards, which biases what is decoded. Left out is what was a mistake
// rather than a decision: highest codes that overflow, launches on another stream, waiting for the
// device.
namespace triaccel::kernels {

/// How often coding on CUDA goes over memory; the codes are the same.
enum class CodingPasses : std::uint8_t {
  One,    // range and codes in one kernel, as well as these groups allow
  Two,    // GACT: ranges, then codes
  Three,  // ActNN: ranges, scales, then codes, a thread and a random draw for every element
};

/// `count` elements of dense memory in `samples` equal parts, each of which starts a group. Codes
/// lie one behind the other, the first in the lowest bits, groups filled up with zeros; then 4
/// bytes for every group: BF16 lowest value, BF16 levels per unit of value.
struct PlainGroupCoding {
  FloatType type = FloatType::F32;
  std::int64_t count = 0;
  std::int64_t samples = 1;
  int bits = kActnnBits;  // 1, 2, 4 or 8
  DitherKey key = {};
  CodingPasses passes = CodingPasses::Three;
};

/// FP32 numbers that coding keeps of every group between its passes.
inline constexpr int kPlainGroupScratch = 3;

/// encode_plain_groups writes plain_group_bytes(sample_groups(samples, count), bits) to `codes`,
/// which start at a multiple of 4 bytes; `scratch` has kPlainGroupScratch numbers for every group.
/// A group with a value that is not finite decodes to NaN and counts in *not_finite (null: not
/// wanted).
namespace cpu {
void encode_plain_groups(const PlainGroupCoding& coding, const void* values, void* codes,
                         std::int32_t* not_finite);
void decode_plain_groups(const PlainGroupCoding& coding, const void* codes, void* values);
}  // namespace cpu
namespace cuda {
void encode_plain_groups(const PlainGroupCoding& coding, const void* values, void* codes,
                         float* scratch, std::int32_t* not_finite, cudaStream_t stream);
void decode_plain_groups(const PlainGroupCoding& coding, const void* codes, void* values,
                         cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
