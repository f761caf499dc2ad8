#include "bench/papers/baseline_codecs/split_codec.h"

#include "bench/papers/baseline_codecs/plain_extremes.cuh"
#include "bench/papers/baseline_codecs/three_pass_codec_math.h"
#include "triaccel/kernels/common/launch.cuh"

namespace triaccel::kernels::cuda {
namespace {

struct SplitWork {
  SplitMeans layout;
  std::int64_t maps;
  std::int64_t elements;  // of a map
  DitherKey key;
  std::uint16_t* means;   // [map][row][column]
  std::uint32_t* ranges;  // [map]
  std::uint8_t* codes;

  __device__ float mean(std::int64_t map, std::int64_t element) const {
    return bf16_to_float(means[map * layout.of_map() + layout.nearest(element)]);
  }
};

/// A thread a mean.
template <typename Stored>
__global__ void mean_kernel(const void* values, const SplitWork work) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t map = i / work.layout.of_map();
  if (map >= work.maps) return;
  const auto* from = static_cast<const typename Stored::Word*>(values) + map * work.elements;
  work.means[i] = work.layout.mean<Stored>(from, i % work.layout.of_map());
}

/// A block a map.
template <typename Stored>
__global__ void range_kernel(const void* values, const SplitWork work, PlainRange* ranges,
                             std::int32_t* not_finite) {
  __shared__ PlainExtremes of_warps[kThreads / 32];
  const std::int64_t map = blockIdx.x;
  const auto* from = static_cast<const typename Stored::Word*>(values) + map * work.elements;
  PlainExtremes found = PlainExtremes::of_none();
  for (std::int64_t i = threadIdx.x; i < work.elements; i += kThreads)
    found.add(Stored::value(from[i]) - work.mean(map, i));
  found = warp_extremes(found);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = found;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const PlainExtremes& others : of_warps) found.add(others);
  const PlainRange range = plain_range(found, kActnnBits);
  ranges[map] = range;
  work.ranges[map] = stored_plain_range(range);
  if (not_finite != nullptr && range.low != range.low) atomicAdd(not_finite, 1);
}

/// A thread a byte of four codes, which may belong to several maps.
template <typename Stored>
__global__ void code_kernel(const void* values, const SplitWork work, const PlainRange* ranges) {
  const auto* from = static_cast<const typename Stored::Word*>(values);
  const std::int64_t byte = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t count = work.maps * work.elements;
  if (4 * byte >= count) return;
  std::uint32_t packed = 0;
  for (int k = 0; k < 4; ++k) {
    const std::int64_t i = 4 * byte + k, map = i / work.elements;
    if (i >= count) break;
    const float rest = Stored::value(from[i]) - work.mean(map, i % work.elements);
    packed |= plain_code(rest, ranges[map], kActnnBits, work.key, i) << k * 2;
  }
  work.codes[byte] = static_cast<std::uint8_t>(packed);
}

/// A thread an element.
template <typename Stored>
__global__ void value_kernel(const SplitWork work, void* values) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t map = i / work.elements;
  if (map >= work.maps) return;
  const std::uint32_t code = work.codes[i / 4] >> i % 4 * 2 & 3u;
  static_cast<typename Stored::Word*>(values)[i] = Stored::word(
      work.mean(map, i % work.elements) + plain_value(code, read_plain_range(work.ranges[map])));
}

SplitWork work_of(const SplitCoding& coding, void* codes) {
  const auto parts = split_parts(coding, static_cast<std::uint8_t*>(codes));
  return {.layout = SplitMeans(coding),
          .maps = coding.maps,
          .elements = coding.rows * coding.columns,
          .key = coding.key,
          .means = reinterpret_cast<std::uint16_t*>(parts.means),
          .ranges = reinterpret_cast<std::uint32_t*>(parts.ranges),
          .codes = parts.codes};
}

}  // namespace

void encode_split(const SplitCoding& coding, const void* values, void* codes, float* scratch,
                  std::int32_t* not_finite, cudaStream_t stream) {
  const SplitWork work = work_of(coding, codes);
  const std::int64_t count = work.maps * work.elements;
  if (count == 0) return;
  auto* ranges = reinterpret_cast<PlainRange*>(scratch);
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    mean_kernel<Stored>
        <<<blocks_for(work.maps * work.layout.of_map(), kThreads), kThreads, 0, stream>>>(values,
                                                                                          work);
    range_kernel<Stored><<<static_cast<unsigned>(work.maps), kThreads, 0, stream>>>(
        values, work, ranges, not_finite);
    code_kernel<Stored>
        <<<blocks_for((count + 3) / 4, kThreads), kThreads, 0, stream>>>(values, work, ranges);
  });
  check_launch("encode_split");
}

void decode_split(const SplitCoding& coding, const void* codes, void* values, cudaStream_t stream) {
  const SplitWork work = work_of(coding, const_cast<void*>(codes));  // only read
  const std::int64_t count = work.maps * work.elements;
  if (count == 0) return;
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    value_kernel<Stored><<<blocks_for(count, kThreads), kThreads, 0, stream>>>(work, values);
  });
  check_launch("decode_split");
}

}  // namespace triaccel::kernels::cuda
