#include <cstdint>

#include "triaccel/int8/cuda/device_math.cuh"
#include "triaccel/int8/cuda/launch_check.cuh"
#include "triaccel/int8/cuda/launches.h"

namespace triaccel::int8::cuda {
namespace {

// A block sums kTileChannels x kTileInputs weights' gradients; a thread 4 x 4 of them over every
// kParts-th sample.
constexpr int kTileThreads = kTileChannels * kTileInputs / 16;
constexpr int kParts = 4;
constexpr int kThreads = kTileThreads * kParts;
constexpr std::int32_t kSamples = 64;  // in shared memory at a time

struct Tile {
  std::int32_t layer;
  std::int32_t channel;
  std::int32_t input;
};

__device__ Tile find_tile(const DeviceNetwork& network, std::int32_t tile) {
  Tile out = {0, 0, 0};
  for (std::int32_t l = network.boundary; l < network.count; ++l) {
    const DeviceLayer& layer = network.layers[l];
    const std::int32_t here = tile - layer.first_tile;
    if (here < 0 || here >= layer.tiles) continue;
    const std::int32_t down = layer.by_tiles_across(here);
    out = {l, down * kTileChannels, (here - down * layer.tiles_across) * kTileInputs};
  }
  return out;
}

__device__ std::int32_t byte_of(std::uint32_t word, int j) {
  return static_cast<std::int8_t>(word >> (8 * j));
}

/// Errors of one sample, rescaled to the common exponent of all samples' products.
__device__ std::uint32_t aligned_errors(std::uint32_t errors, std::int32_t drop) {
  if (drop <= 0) return errors;
  std::uint32_t out = 0;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const std::int32_t rounded = round_nearest(byte_of(errors, j), drop < 31 ? drop : 31);
    out |= (static_cast<std::uint32_t>(rounded) & 0xFFu) << (8 * j);
  }
  return out;
}

__global__ void __launch_bounds__(kThreads)
    gradient_kernel(const __grid_constant__ StepArguments step) {
  __shared__ std::uint32_t errors[kSamples][kTileChannels / 4];
  __shared__ std::uint32_t inputs[kSamples][kTileInputs / 4];
  __shared__ std::int32_t sums[kTileChannels * kTileInputs];
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const Tile tile = find_tile(step.network, static_cast<std::int32_t>(blockIdx.x));
  const DeviceLayer& layer = step.network.layers[tile.layer];
  const std::int32_t common = step.common_exponent[tile.layer];
  for (std::int32_t i = thread; i < kTileChannels * kTileInputs; i += kThreads) sums[i] = 0;

  const std::int32_t part = thread / kTileThreads;
  const std::int32_t channel_word = thread % kTileThreads / (kTileInputs / 4);
  const std::int32_t input_word = thread % (kTileInputs / 4);
  std::int32_t sum[4][4] = {};
  for (std::int32_t first = 0; first < step.batch; first += kSamples) {
    const std::int32_t left = step.batch - first;
    const std::int32_t samples = left < kSamples ? left : kSamples;
    __syncthreads();
    for (std::int32_t i = thread; i < samples * (kTileChannels / 4); i += kThreads) {
      const std::int32_t b = i / (kTileChannels / 4);
      const std::int32_t at = tile.channel + i % (kTileChannels / 4) * 4;
      const std::int8_t* row = step.error_row(layer, first + b);
      const std::int32_t drop =
          common - step.error_exponents[step.exponent_at(tile.layer, first + b)];
      const std::uint32_t word =
          at < layer.error_stride ? *reinterpret_cast<const std::uint32_t*>(row + at) : 0u;
      errors[b][i % (kTileChannels / 4)] = aligned_errors(word, drop);
    }
    for (std::int32_t i = thread; i < samples * (kTileInputs / 4); i += kThreads) {
      const std::int32_t b = i / (kTileInputs / 4);
      const std::int32_t at = tile.input + i % (kTileInputs / 4) * 4;
      const std::int8_t* row = step.kept_row(layer, first + b);
      inputs[b][i % (kTileInputs / 4)] =
          at < layer.panel_stride ? *reinterpret_cast<const std::uint32_t*>(row + at) : 0u;
    }
    __syncthreads();
    for (std::int32_t b = part; b < samples; b += kParts) {
      const std::uint32_t error = errors[b][channel_word];
      const std::uint32_t input = inputs[b][input_word];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
#pragma unroll
        for (int k = 0; k < 4; ++k) sum[c][k] += byte_of(error, c) * byte_of(input, k);
      }
    }
  }
#pragma unroll
  for (int c = 0; c < 4; ++c) {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      atomicAdd(&sums[(channel_word * 4 + c) * kTileInputs + input_word * 4 + k], sum[c][k]);
  }
  __syncthreads();
  std::uint32_t largest = 0;
  for (std::int32_t i = thread; i < kTileChannels * kTileInputs; i += kThreads) {
    const std::int32_t channel = tile.channel + i / kTileInputs;
    const std::int32_t input = tile.input + i % kTileInputs;
    if (channel >= layer.out_channels || input >= layer.depth) continue;
    step.gradients[layer.gradient + std::int64_t{channel} * layer.depth + input] = sums[i];
    largest = larger(largest, magnitude(sums[i]));
  }
  largest = warp_largest(largest);
  if (thread % 32 == 0 && largest > 0) atomicMax(&step.gradient_largest[tile.layer], largest);
}

}  // namespace

void launch_gradients(const StepArguments& step, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(step.network.gradient_tiles);
  gradient_kernel<<<blocks, kThreads, 0, stream>>>(step);
  check_launch("launch_gradients");
}

}  // namespace triaccel::int8::cuda
