#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/host_device.h"

namespace triaccel::kernels {

/// How a gradient is stored.
enum class FloatType : std::uint8_t { F32, Bf16, F16 };

/// One tensor of a multi-tensor operation: dense memory of `count` elements, all pointers in the
/// same element order. An operation reads only the pointers its own comment names.
struct TensorEntry {
  float* parameter = nullptr;
  const void* gradient = nullptr;
  float* state1 = nullptr;
  float* state2 = nullptr;
  std::int64_t count = 0;
  std::int32_t layer = 0;
  FloatType gradient_type = FloatType::F32;
  std::int64_t rows = 1;   // the tensor as a matrix in memory order; columns = count / rows
  std::uint64_t seed = 0;  // of random numbers for this tensor
};

/// Elements of one unit of work: one CUDA block, or one turn of an OpenMP loop.
inline constexpr std::int64_t kChunk = 4096;

constexpr std::int64_t chunks_of(std::int64_t count) { return divide_up(count, kChunk); }

/// Chunks in all tensors together.
inline std::int64_t chunk_count(std::span<const TensorEntry> tensors) {
  std::int64_t chunks = 0;
  for (const TensorEntry& tensor : tensors) chunks += chunks_of(tensor.count);
  return chunks;
}

/// Up to kCapacity tensors as one kernel argument, so that no table has to be copied to the device
/// and a captured graph carries its own.
struct TensorList {
  static constexpr int kCapacity = 80;
  float* parameter[kCapacity];
  const void* gradient[kCapacity];
  float* state1[kCapacity];
  float* state2[kCapacity];
  std::int64_t count[kCapacity];
  std::int32_t first_chunk[kCapacity + 1];  // prefix sum of chunks, within this list
  std::int32_t layer[kCapacity];
  FloatType gradient_type[kCapacity];
  std::int32_t size;
};
static_assert(sizeof(TensorList) <= 4000,
              "kernel arguments end at 4 KB; the rest is the operation's");

/// Where one chunk lies: elements [begin, end) of tensor `index` of a list.
struct ChunkRange {
  int index;
  std::int64_t begin;
  std::int64_t end;
};

template <typename List>
TRIACCEL_HOST_DEVICE inline ChunkRange locate_chunk(const List& list, std::int32_t chunk) {
  int low = 0;
  int high = list.size;  // first_chunk[low] <= chunk < first_chunk[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (list.first_chunk[middle] <= chunk)
      low = middle;
    else
      high = middle;
  }
  const std::int64_t begin = std::int64_t{chunk - list.first_chunk[low]} * kChunk;
  const std::int64_t left = static_cast<std::int64_t>(list.count[low]) - begin;
  return {low, begin, begin + (left < kChunk ? left : kChunk)};
}

/// Calls body(list, chunks, first_chunk) for every kCapacity tensors in order, where first_chunk
/// counts the chunks of the lists before. Empty tensors are skipped.
template <typename Body>
void for_each_list(std::span<const TensorEntry> tensors, Body body) {
  TensorList list;
  list.size = 0;
  list.first_chunk[0] = 0;
  std::int64_t chunks_before = 0;
  const auto flush = [&] {
    if (list.size == 0) return;
    const std::int32_t chunks = list.first_chunk[list.size];
    body(static_cast<const TensorList&>(list), chunks, chunks_before);
    chunks_before += chunks;
    list.size = 0;
  };
  for (const TensorEntry& tensor : tensors) {
    if (tensor.count == 0) continue;
    const int i = list.size;
    list.parameter[i] = tensor.parameter;
    list.gradient[i] = tensor.gradient;
    list.state1[i] = tensor.state1;
    list.state2[i] = tensor.state2;
    list.count[i] = tensor.count;
    list.layer[i] = tensor.layer;
    list.gradient_type[i] = tensor.gradient_type;
    list.first_chunk[i + 1] =
        list.first_chunk[i] + static_cast<std::int32_t>(chunks_of(tensor.count));
    if (++list.size == TensorList::kCapacity) flush();
  }
  flush();
}

}  // namespace triaccel::kernels
