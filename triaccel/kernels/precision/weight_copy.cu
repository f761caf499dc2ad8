#include "triaccel/kernels/precision/weight_copy.h"

#include "triaccel/kernels/common/chunk_loop.cuh"

namespace triaccel::kernels::cuda {
namespace {

/// Many entries as one kernel argument.
struct CopyList {
  static constexpr int kCapacity = 64;
  const float* from[kCapacity];
  std::uint16_t* to[kCapacity];
  std::int32_t extent[kCapacity][4];
  std::int32_t stride[kCapacity][4];
  std::uint32_t count[kCapacity];
  std::int32_t first_chunk[kCapacity + 1];
  FloatType type[kCapacity];
  std::int32_t size;
};
static_assert(sizeof(CopyList) <= 4096, "kernel arguments end at 4 KB");

void append(CopyList& list, const WeightCopyEntry& entry) {
  const int i = list.size++;
  const std::int64_t count = elements_of(entry.extent);
  list.from[i] = entry.from;
  list.to[i] = entry.to;
  std::copy_n(entry.extent, 4, list.extent[i]);
  std::copy_n(entry.stride, 4, list.stride[i]);
  list.count[i] = static_cast<std::uint32_t>(count);
  list.first_chunk[i + 1] = list.first_chunk[i] + static_cast<std::int32_t>(chunks_of(count));
  list.type[i] = entry.type;
}

__device__ WeightCopyEntry entry_of(const CopyList& list, int i) {
  WeightCopyEntry entry;
  entry.from = list.from[i];
  entry.to = list.to[i];
  entry.type = list.type[i];
#pragma unroll
  for (int d = 0; d < 4; ++d) {
    entry.extent[d] = list.extent[i][d];
    entry.stride[d] = list.stride[i][d];
  }
  return entry;
}

/// Whether no pack crosses from one innermost row into another: rows are whole packs, or one.
__device__ bool rows_are_packs(const std::int32_t (&extent)[4], int pack) {
  return extent[3] % pack == 0 || (extent[0] == 1 && extent[1] == 1 && extent[2] == 1);
}

/// This thread's share of [begin, end): pack_body(i) for a pack of elements where `packed` and
/// whole packs are left, element_body(i) for the rest. Neighbouring threads take neighbours.
template <int kPack, typename PackBody, typename ElementBody>
__device__ void for_each_pack(std::int64_t begin, std::int64_t end, bool packed, PackBody pack_body,
                              ElementBody element_body) {
  static_assert(kChunk % (kThreads * kPack) == 0);
  std::int64_t rest = begin;
  if (packed) {
    rest = begin + (end - begin) / kPack * kPack;
#pragma unroll
    for (int turn = 0; turn < kChunk / (kThreads * kPack); ++turn) {
      const std::int64_t i = begin + (turn * kThreads + threadIdx.x) * kPack;
      if (i < rest) pack_body(i);
    }
  }
  for (std::int64_t i = rest + threadIdx.x; i < end; i += kThreads) element_body(i);
}

__global__ void __launch_bounds__(kThreads) copy_kernel(const __grid_constant__ CopyList list) {
  using Out = WordPack<std::uint16_t>;
  const ChunkRange range = locate_chunk(list, static_cast<std::int32_t>(blockIdx.x));
  const WeightCopyEntry entry = entry_of(list, range.index);
  const bool packed =
      entry.stride[3] == 1 && (entry.stride[0] | entry.stride[1] | entry.stride[2]) % 4 == 0 &&
      rows_are_packs(entry.extent, Out::kWords) && aligned_for_vectors(entry.from, entry.to);
  wait_for_previous_kernel();
  for_each_pack<Out::kWords>(
      range.begin, range.end, packed,
      [&](std::int64_t i) {
        const float* from = entry.from + offset_of(entry, position_in(entry.extent, i));
        const float4 low = load4(from);
        const float4 high = load4(from + 4);
        const float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        Out out;
#pragma unroll
        for (int k = 0; k < 8; ++k) out.words[k] = copied_word(values[k], entry.type);
        *reinterpret_cast<Out*>(entry.to + i) = out;
      },
      [&](std::int64_t i) {
        const float value = entry.from[offset_of(entry, position_in(entry.extent, i))];
        entry.to[i] = copied_word(value, entry.type);
      });
}

template <typename Word>
__global__ void __launch_bounds__(kThreads)
    whole_kernel(const __grid_constant__ WholeGradient gradient) {
  using Words = WordPack<Word>;
  const auto* part = static_cast<const Word*>(gradient.part);
  auto* whole = static_cast<Word*>(gradient.whole);
  const std::int64_t begin = std::int64_t{blockIdx.x} * kChunk;
  const std::int64_t count = elements_of(gradient.extent);
  const std::int64_t end = begin + kChunk < count ? begin + kChunk : count;
  const bool packed =
      gradient.stride[3] == 1 && gradient.first[3] == 0 && gradient.last[3] == gradient.extent[3] &&
      (gradient.stride[0] | gradient.stride[1] | gradient.stride[2]) % Words::kWords == 0 &&
      rows_are_packs(gradient.extent, Words::kWords) && aligned_for_vectors(part, whole);
  wait_for_previous_kernel();
  for_each_pack<Words::kWords>(
      begin, end, packed,
      [&](std::int64_t i) {
        const BoxPosition position = position_in(gradient.extent, i);
        Words words = {};
        if (in_part(gradient, position, 3))
          words = *reinterpret_cast<const Words*>(part + offset_of(gradient, position));
        *reinterpret_cast<Words*>(whole + i) = words;
      },
      [&](std::int64_t i) {
        const BoxPosition position = position_in(gradient.extent, i);
        whole[i] = in_part(gradient, position, 4) ? part[offset_of(gradient, position)] : Word{0};
      });
}

}  // namespace

void copy_weights(std::span<const WeightCopyEntry> entries, cudaStream_t stream) {
  CopyList list;
  list.size = 0;
  list.first_chunk[0] = 0;
  const auto flush = [&] {
    if (list.size == 0) return;
    const auto blocks = static_cast<unsigned>(list.first_chunk[list.size]);
    launch_overlapped("copy_weights", copy_kernel, {.grid = blocks, .threads = kThreads}, stream,
                      list);
    list.size = 0;
  };
  for (const WeightCopyEntry& entry : entries) {
    if (elements_of(entry.extent) == 0) continue;
    append(list, entry);
    if (list.size == CopyList::kCapacity) flush();
  }
  flush();
}

void write_whole_gradient(const WholeGradient& gradient, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(chunks_of(elements_of(gradient.extent)));
  if (blocks == 0) return;
  launch_overlapped(
      "write_whole_gradient",
      gradient.word_bytes == 2 ? whole_kernel<std::uint16_t> : whole_kernel<std::uint32_t>,
      {.grid = blocks, .threads = kThreads}, stream, gradient);
}

}  // namespace triaccel::kernels::cuda
