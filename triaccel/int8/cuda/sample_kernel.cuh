#pragma once

#include "triaccel/int8/cuda/device_math.cuh"
#include "triaccel/int8/cuda/launches.h"

// Stages of the kernel that processes one sample through convolutions and linear layers, each
// executed by all threads of a block in shared memory. The caller synchronizes between them.
namespace triaccel::int8::cuda {

inline constexpr int kSampleThreads = 512;
inline constexpr int kSampleWarps = kSampleThreads / 32;

struct SampleMemory {
  std::int8_t* placed;
  std::int32_t* sums;
  std::int8_t* patches;
  std::uint16_t* offsets;
  std::uint32_t* largest;  // of each stream
};

__device__ inline void clear_bytes(std::int8_t* bytes, std::int32_t count) {
  auto* words = reinterpret_cast<int4*>(bytes);
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < count / 16; i += kSampleThreads)
    words[i] = make_int4(0, 0, 0, 0);
}

/// Address of value i of a layer's input.
__device__ inline std::int32_t placed_at(const DeviceLayer& layer, std::int32_t i) {
  const std::int32_t row = layer.by_row_run(i);
  return layer.placed_start + row * layer.placed_stride + i - row * layer.row_run;
}

/// Block-wide maximum |sum| of each stream.
__device__ inline void join_largest(const std::uint32_t (&seen)[kMostStreams],
                                    std::uint32_t* largest) {
#pragma unroll
  for (int s = 0; s < kMostStreams; ++s) {
    const std::uint32_t most = warp_largest(seen[s]);
    if (threadIdx.x % 32 == 0 && most > 0) atomicMax(&largest[s], most);
  }
}

__device__ inline void note_largest(std::uint32_t (&seen)[kMostStreams], std::int32_t stream,
                                    std::uint32_t value) {
#pragma unroll
  for (int s = 0; s < kMostStreams; ++s)
    if (s == stream) seen[s] = larger(seen[s], value);
}

/// Offset of the k-th value of a patch in the image. Values beyond the kernel are irrelevant, since
/// their weights are zero.
__device__ inline void fill_offsets(const DeviceLayer& layer, std::uint16_t* offsets) {
  for (std::int32_t k = static_cast<std::int32_t>(threadIdx.x); k < layer.panel_stride;
       k += kSampleThreads) {
    const std::int32_t row = layer.by_kernel_run(k);
    const std::int32_t at = row * layer.placed_stride + k - row * layer.kernel_run;
    offsets[k] = static_cast<std::uint16_t>(k < layer.depth ? at : 0);
  }
}

/// First value of the patch of product row `row`: four neighbours in `row` are a pooled window.
__device__ inline std::int32_t patch_start(const DeviceLayer& layer, std::int32_t row) {
  const bool pooled = layer.pooling == Pooling::Max2x2;
  const std::int32_t at = row < layer.positions ? row : layer.positions - 1;
  const std::int32_t window = pooled ? at >> 2 : at;
  const std::int32_t y = layer.by_pooled_width(window);
  const std::int32_t x = window - y * layer.pooled_width;
  const std::int32_t image_y = pooled ? 2 * y + ((at >> 1) & 1) : y;
  const std::int32_t image_x = pooled ? 2 * x + (at & 1) : x;
  return image_y * layer.placed_stride + image_x * layer.in_channels;
}

__device__ inline void gather_patches(const DeviceLayer& layer, const std::int8_t* placed,
                                      const std::uint16_t* offsets, std::int8_t* patches) {
  const std::int32_t words = layer.panel_stride / 4;
  const std::int32_t total = layer.groups * 4 * words;
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < total; i += kSampleThreads) {
    const std::int32_t row = layer.by_patch_words(i);
    const std::int32_t word = i - row * words;
    const std::int8_t* from = placed + patch_start(layer, row);
    const ushort4 at = reinterpret_cast<const ushort4*>(offsets)[word];
    const std::uint32_t low = static_cast<std::uint8_t>(from[at.x]) |
                              static_cast<std::uint32_t>(static_cast<std::uint8_t>(from[at.y]))
                                  << 8;
    const std::uint32_t high = static_cast<std::uint8_t>(from[at.z]) |
                               static_cast<std::uint32_t>(static_cast<std::uint8_t>(from[at.w]))
                                   << 8;
    *reinterpret_cast<std::uint32_t*>(patches + row * layer.patch_stride + word * 4) =
        low | high << 16;
  }
}

/// Four positions by four channels: 16 dot products, and their pooled sums.
__device__ inline std::uint32_t convolve_tile(const DeviceLayer& layer, const std::int8_t* rows,
                                              const std::int8_t* panel, std::int32_t group,
                                              std::int32_t channel, std::int32_t* sums) {
  std::int32_t weights[4];  // offsets: half the registers of pointers
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const std::int32_t of = channel + c < layer.out_channels ? channel + c : layer.out_channels - 1;
    weights[c] = of * layer.panel_stride;
  }
  std::int32_t sum[4][4] = {};
  for (std::int32_t k = 0; k < layer.panel_stride; k += 16) {
    int4 row[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) row[r] = load16(rows + r * layer.patch_stride + k);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int4 weight = load16(panel + weights[c] + k);
#pragma unroll
      for (int r = 0; r < 4; ++r) sum[r][c] = dot16(row[r], weight, sum[r][c]);
    }
  }
  std::uint32_t largest = 0;
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    if (channel + c >= layer.out_channels) break;
    std::int32_t most = sum[0][c];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const std::int32_t position = group * 4 + r;
      if (position >= layer.positions) break;
      largest = larger(largest, magnitude(sum[r][c]));
      most = sum[r][c] > most ? sum[r][c] : most;
      if (layer.pooling == Pooling::None)
        sums[position * layer.out_channels + channel + c] = sum[r][c];
    }
    if (layer.pooling != Pooling::None) sums[group * layer.out_channels + channel + c] = most;
  }
  return largest;
}

/// Sums of a convolution for all streams. The streams of the first layer share their input.
__device__ inline void convolve(const StepArguments& step, const SampleLayout& layout,
                                std::int32_t l, const SampleMemory& memory) {
  const DeviceLayer& layer = step.network.layers[l];
  const std::int32_t streams = step.network.streams;
  const std::int32_t sources = l == 0 ? 1 : streams;
  const std::int32_t chunks = (layer.out_channels + 3) / 4;
  const std::int32_t patch_bytes = layer.groups * 4 * layer.patch_stride;
  std::uint32_t seen[kMostStreams] = {};
  fill_offsets(layer, memory.offsets);
  for (std::int32_t first = 0; first < sources; first += layout.streams_together) {
    const std::int32_t left = sources - first;
    const std::int32_t here = left < layout.streams_together ? left : layout.streams_together;
    __syncthreads();
    for (std::int32_t i = 0; i < here; ++i)
      gather_patches(layer, memory.placed + (first + i) * layout.placed_stride, memory.offsets,
                     memory.patches + i * patch_bytes);
    __syncthreads();
    const std::int32_t targets = l == 0 ? streams : here;
    const std::int32_t tiles = targets * chunks * layer.groups;
    for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < tiles; i += kSampleThreads) {
      std::int32_t chunk = layer.by_groups(i);
      const std::int32_t group = i - chunk * layer.groups;
      std::int32_t target = 0;
      for (; chunk >= chunks; chunk -= chunks) ++target;
      const std::int32_t stream = first + target;
      const std::int8_t* rows =
          memory.patches + (l == 0 ? 0 : target) * patch_bytes + group * 4 * layer.patch_stride;
      const std::int8_t* panel = step.panel(layer, stream);
      note_largest(seen, stream,
                   convolve_tile(layer, rows, panel, group, chunk * 4,
                                 memory.sums + stream * layer.outputs));
    }
  }
  join_largest(seen, memory.largest);
}

/// Sums of a linear layer for all streams; a warp computes four outputs at a time.
__device__ inline void multiply(const StepArguments& step, const SampleLayout& layout,
                                std::int32_t l, const SampleMemory& memory) {
  const DeviceLayer& layer = step.network.layers[l];
  const std::int32_t outputs = step.network.streams * layer.outputs;
  const std::int32_t lane = static_cast<std::int32_t>(threadIdx.x) % 32;
  const std::int8_t* panels = step.panel(layer, 0);
  std::uint32_t seen[kMostStreams] = {};
  for (std::int32_t first = static_cast<std::int32_t>(threadIdx.x) / 32 * 4; first < outputs;
       first += kSampleWarps * 4) {
    std::int32_t values[4];  // offsets: half the registers of pointers
    std::int32_t weights[4];
    std::int32_t stream[4];
    std::int32_t sum[4] = {};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      std::int32_t channel = first + j < outputs ? first + j : outputs - 1;
      stream[j] = 0;
      for (; channel >= layer.outputs; channel -= layer.outputs) ++stream[j];
      values[j] = stream[j] * layout.placed_stride;
      weights[j] =
          stream[j] * static_cast<std::int32_t>(layer.panel_size) + channel * layer.panel_stride;
    }
    for (std::int32_t k = lane * 16; k < layer.panel_stride; k += 512) {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        sum[j] =
            dot16(load16(memory.placed + values[j] + k), load16(panels + weights[j] + k), sum[j]);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int32_t total = warp_sum(sum[j]);
      if (first + j >= outputs) break;
      if (lane == 0) memory.sums[first + j] = total;
      note_largest(seen, stream[j], magnitude(total));
    }
  }
  join_largest(seen, memory.largest);
}

}  // namespace triaccel::int8::cuda
