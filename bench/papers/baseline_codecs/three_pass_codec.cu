#include "bench/papers/baseline_codecs/three_pass_codec.h"

#include "bench/papers/baseline_codecs/plain_extremes.cuh"
#include "bench/papers/baseline_codecs/three_pass_codec_math.h"
#include "triaccel/kernels/common/launch.cuh"

namespace triaccel::kernels::cuda {
namespace {

constexpr int kGroup = static_cast<int>(kGroupElements);

struct PlainWork {
  PlainGroups layout;
  int bits;
  DitherKey key;
  std::uint32_t* codes;   // [group][8 * bits]
  std::uint32_t* ranges;  // [group]
  float* scratch;         // [3][group]: least, largest, scale
  std::int32_t* not_finite;

  __device__ std::uint32_t code(float value, PlainRange range, std::int64_t group, int i) const {
    return plain_code(value, range, bits, key, group * kGroup + i);
  }
  __device__ void keep(PlainRange range, std::int64_t group) const {
    ranges[group] = stored_plain_range(range);
    if (not_finite != nullptr && range.low != range.low) atomicAdd(not_finite, 1);
  }
};

/// A warp a block, a block a group.
template <typename Stored>
__global__ void range_kernel(const void* values, const PlainWork work) {
  const auto* from = static_cast<const typename Stored::Word*>(values);
  const std::int64_t group = blockIdx.x;
  const PlainGroups::Range elements = work.layout.range(group);
  PlainExtremes found = PlainExtremes::of_none();
  for (std::int64_t i = elements.begin + threadIdx.x; i < elements.end; i += 32)
    found.add(Stored::value(from[i]));
  found = warp_extremes(found);
  if (threadIdx.x != 0) return;
  work.scratch[group] = found.least;
  work.scratch[work.layout.groups + group] = found.largest;
}

__device__ PlainRange range_in_scratch(const PlainWork& work, std::int64_t group) {
  return plain_range({work.scratch[group], work.scratch[work.layout.groups + group]}, work.bits);
}

__global__ void scale_kernel(const PlainWork work) {
  const std::int64_t group = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (group >= work.layout.groups) return;
  const PlainRange range = range_in_scratch(work, group);
  work.scratch[group] = range.low;
  work.scratch[2 * work.layout.groups + group] = range.scale;
  work.keep(range, group);
}

/// A block a group, a thread an element, and a shared addition for every bit.
template <typename Stored>
__global__ void bit_kernel(const void* values, const PlainWork work) {
  __shared__ std::uint32_t packed[kGroup / 4];
  const auto* from = static_cast<const typename Stored::Word*>(values);
  const std::int64_t group = blockIdx.x;
  const PlainGroups::Range elements = work.layout.range(group);
  const int i = static_cast<int>(threadIdx.x), words = kGroup * work.bits / 32;
  if (i < words) packed[i] = 0;
  __syncthreads();
  if (elements.begin + i < elements.end) {
    const PlainRange range = {work.scratch[group], work.scratch[2 * work.layout.groups + group]};
    const std::uint32_t code = work.code(Stored::value(from[elements.begin + i]), range, group, i);
    for (int bit = 0; bit < work.bits; ++bit) {
      const int place = i * work.bits + bit;
      atomicOr(packed + place / 32, (code >> bit & 1u) << place % 32);
    }
  }
  __syncthreads();
  if (i < words) work.codes[group * words + i] = packed[i];
}

/// A thread a byte of codes.
template <typename Stored>
__global__ void byte_kernel(const void* values, const PlainWork work) {
  const auto* from = static_cast<const typename Stored::Word*>(values);
  const int group_bytes = kGroup * work.bits / 8, per_byte = 8 / work.bits;
  const std::int64_t byte = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t group = byte / group_bytes;
  if (group >= work.layout.groups) return;
  const PlainRange range = range_in_scratch(work, group);
  if (byte % group_bytes == 0) work.keep(range, group);
  const PlainGroups::Range elements = work.layout.range(group);
  const int first = static_cast<int>(byte % group_bytes) * per_byte;
  std::uint32_t packed = 0;
  for (int k = 0; k < per_byte; ++k)
    if (elements.begin + first + k < elements.end)
      packed |= work.code(Stored::value(from[elements.begin + first + k]), range, group, first + k)
                << k * work.bits;
  reinterpret_cast<std::uint8_t*>(work.codes)[byte] = static_cast<std::uint8_t>(packed);
}

/// A warp a group, eight neighbours a thread.
template <typename Stored>
__global__ void __launch_bounds__(kThreads) group_kernel(const void* values, const PlainWork work) {
  const auto* from = static_cast<const typename Stored::Word*>(values);
  const std::int64_t group = std::int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  if (group >= work.layout.groups) return;
  const int first = static_cast<int>(threadIdx.x % 32) * 8;
  const PlainGroups::Range elements = work.layout.range(group);
  const int count = static_cast<int>(elements.end - elements.begin);
  float x[8];
  PlainExtremes found = PlainExtremes::of_none();
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    if (first + k >= count) continue;
    x[k] = Stored::value(from[elements.begin + first + k]);
    found.add(x[k]);
  }
  const PlainRange range = plain_range(warp_extremes(found), work.bits);
  if (first == 0) work.keep(range, group);
  std::uint64_t packed = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k)
    if (first + k < count)
      packed |= std::uint64_t{work.code(x[k], range, group, first + k)} << k * work.bits;
  auto* to = reinterpret_cast<std::uint8_t*>(work.codes) + (group * kGroup + first) * work.bits / 8;
  for (int byte = 0; byte < work.bits; ++byte)
    to[byte] = static_cast<std::uint8_t>(packed >> byte * 8);
}

/// A thread an element.
template <typename Stored>
__global__ void value_kernel(const PlainWork work, void* values) {
  const std::int64_t group = blockIdx.x;
  const PlainGroups::Range elements = work.layout.range(group);
  const std::int64_t i = elements.begin + threadIdx.x;
  if (i >= elements.end) return;
  const std::int64_t place = (group * kGroup + threadIdx.x) * work.bits;
  const std::uint32_t code = work.codes[place / 32] >> place % 32 & ((1u << work.bits) - 1);
  static_cast<typename Stored::Word*>(values)[i] =
      Stored::word(plain_value(code, read_plain_range(work.ranges[group])));
}

PlainWork work_of(const PlainGroupCoding& coding, void* codes) {
  const PlainGroups layout(coding);
  auto* words = static_cast<std::uint32_t*>(codes);
  return {.layout = layout,
          .bits = coding.bits,
          .key = coding.key,
          .codes = words,
          .ranges = words + layout.groups * (kGroup * coding.bits / 32),
          .scratch = nullptr,
          .not_finite = nullptr};
}

}  // namespace

void encode_plain_groups(const PlainGroupCoding& coding, const void* values, void* codes,
                         float* scratch, std::int32_t* not_finite, cudaStream_t stream) {
  if (coding.count == 0) return;
  PlainWork work = work_of(coding, codes);
  work.scratch = scratch;
  work.not_finite = not_finite;
  const auto groups = static_cast<unsigned>(work.layout.groups);
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    if (coding.passes != CodingPasses::One)
      range_kernel<Stored><<<groups, 32, 0, stream>>>(values, work);
    switch (coding.passes) {
      case CodingPasses::One:
        group_kernel<Stored>
            <<<blocks_for(groups, kThreads / 32), kThreads, 0, stream>>>(values, work);
        break;
      case CodingPasses::Two:
        byte_kernel<Stored><<<blocks_for(work.layout.groups * (kGroup * coding.bits / 8), kThreads),
                              kThreads, 0, stream>>>(values, work);
        break;
      case CodingPasses::Three:
        scale_kernel<<<blocks_for(groups, kThreads), kThreads, 0, stream>>>(work);
        bit_kernel<Stored><<<groups, kGroup, 0, stream>>>(values, work);
        break;
    }
  });
  check_launch("encode_plain_groups");
}

void decode_plain_groups(const PlainGroupCoding& coding, const void* codes, void* values,
                         cudaStream_t stream) {
  if (coding.count == 0) return;
  const PlainWork work = work_of(coding, const_cast<void*>(codes));  // only read
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    value_kernel<Stored>
        <<<static_cast<unsigned>(work.layout.groups), kGroup, 0, stream>>>(work, values);
  });
  check_launch("decode_plain_groups");
}

}  // namespace triaccel::kernels::cuda
