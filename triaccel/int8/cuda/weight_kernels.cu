#include <algorithm>
#include <cstdint>

#include "triaccel/base/divide_up.h"
#include "triaccel/int8/cuda/device_math.cuh"
#include "triaccel/int8/cuda/launch_check.cuh"
#include "triaccel/int8/cuda/launches.h"
#include "triaccel/int8/training/random_stream.h"

namespace triaccel::int8::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int32_t kLowest = -2147483647 - 1;

/// Eight adjacent weights of one layer that share a block of random numbers.
struct WeightBlock {
  std::int64_t block;  // index / 8
  std::int32_t layer;  // -1: none, a gap between layers
  std::int64_t first;  // of the first weight in its layer
  std::int32_t count;  // weights belonging to the layer
  union {
    uint2 words;
    std::int8_t values[8];
  };
};

__device__ WeightBlock load_block(const StepArguments& step, std::int64_t block) {
  WeightBlock out;
  out.block = block;
  out.layer = -1;
  for (std::int32_t l = 0; l < step.network.count; ++l) {
    const DeviceLayer& layer = step.network.layers[l];
    const std::int64_t first = block * 8 - layer.weights;
    if (first < 0 || first >= layer.weight_count) continue;
    out.layer = l;
    out.first = first;
    const std::int64_t left = layer.weight_count - first;
    out.count = left < 8 ? static_cast<std::int32_t>(left) : 8;
  }
  if (out.layer >= 0) out.words = *reinterpret_cast<const uint2*>(step.weights + block * 8);
  return out;
}

/// 16 bits of the j-th of eight neighbours.
__device__ std::uint32_t half_word(const RandomWords& random, int j) {
  return (random.words[j / 2] >> (j % 2 * 16)) & 0xFFFFu;
}

__device__ std::int64_t thread_index() { return std::int64_t{blockIdx.x} * kThreads + threadIdx.x; }

__device__ void pack_block(const StepArguments& step, const WeightBlock& weights,
                           std::uint64_t key) {
  const DeviceLayer& layer = step.network.layers[weights.layer];
  std::int8_t* panel = step.panels + layer.panel;
  const auto first = static_cast<std::int32_t>(weights.first);
  std::int32_t row = layer.by_depth(first);
  std::int32_t column = first - row * layer.depth;
  RandomWords random = {};
  if (layer.perturbed) random = random_words(key, static_cast<std::uint64_t>(weights.block));
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    if (j >= weights.count) break;
    std::int8_t* to = panel + std::int64_t{row} * layer.panel_stride + column;
    const std::int32_t weight = weights.values[j];
    if (layer.perturbed) {
      const std::int32_t z = noise_value(step.noise, half_word(random, j));
      to[0] = saturate8(weight + z);
      to[layer.panel_size] = saturate8(weight - z);
      if (step.network.streams == 3) to[2 * layer.panel_size] = weights.values[j];
    } else {
      to[0] = weights.values[j];
    }
    if (++column == layer.depth) {
      column = 0;
      ++row;
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    prepare_kernel(const __grid_constant__ StepArguments step) {
  const std::int64_t i = thread_index();
  const std::uint64_t now = step.progress->step;
  if (i == 0) step.progress->now = now;
  const std::int64_t all = std::int64_t{gridDim.x} * kThreads;
  auto* zeroed = reinterpret_cast<std::uint32_t*>(step.result);
  // Unrolling would need a division for the trip count.
#pragma unroll 1
  for (std::int64_t word = i; word < step.zeroed_words; word += all) zeroed[word] = 0;
#pragma unroll 1
  for (std::int64_t word = i; word < step.lowest_words; word += all)
    step.common_exponent[word] = kLowest;
  const WeightBlock weights = load_block(step, i);
  if (weights.layer >= 0)
    pack_block(step, weights, random_key(step.seed, RandomStream::Perturbation, now));
}

/// Update of a zeroth-order layer's weight: `z` times the slope.
__device__ std::int32_t noise_step(const StepArguments& step, std::int32_t z,
                                   std::uint32_t random) {
  const std::int32_t shift = step.progress->rate_exponent;
  return step.rounding == UpdateRounding::PseudoStochastic ? round_pseudo(z, shift)
                                                           : round_stochastic(z, shift, random);
}

/// Update of a backpropagated layer's weight.
__device__ std::int32_t gradient_step(const StepArguments& step, std::int32_t gradient,
                                      std::int32_t shift, std::uint32_t random) {
  if (step.rounding == UpdateRounding::PseudoStochastic || shift == 0)
    return round_pseudo(gradient, shift);
  return round_stochastic(gradient, shift, random << (shift > 16 ? shift - 16 : 0));
}

__device__ void move_by_noise(const StepArguments& step, std::int32_t slope, WeightBlock& weights) {
  const std::uint64_t now = step.progress->now;
  const auto block = static_cast<std::uint64_t>(weights.block);
  const RandomWords noise =
      random_words(random_key(step.seed, RandomStream::Perturbation, now), block);
  const RandomWords rounding =
      random_words(random_key(step.seed, RandomStream::SignUpdate, now), block);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const std::int32_t z = noise_value(step.noise, half_word(noise, j));
    weights.values[j] =
        saturate8(weights.values[j] - noise_step(step, slope * z, half_word(rounding, j)));
  }
}

__device__ void move_by_gradient(const StepArguments& step, WeightBlock& weights) {
  const std::uint32_t most = step.gradient_largest[weights.layer];
  if (most == 0) return;
  const std::int32_t excess = bit_length(most) - step.progress->gradient_bits;
  const std::int32_t shift = excess > 0 ? excess : 0;
  const RandomWords random =
      random_words(random_key(step.seed, RandomStream::GradientUpdate, step.progress->now),
                   static_cast<std::uint64_t>(weights.block));
  const std::int32_t* gradient =
      step.gradients + step.network.layers[weights.layer].gradient + weights.first;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    if (j >= weights.count) break;
    weights.values[j] = saturate8(weights.values[j] -
                                  gradient_step(step, gradient[j], shift, half_word(random, j)));
  }
}

__device__ std::int32_t slope_of(const StepArguments& step) {
  const std::int64_t plus = step.result->loss[0];
  const std::int64_t minus = step.network.streams > 1 ? step.result->loss[1] : plus;
  return loss_slope(plus - minus, step.batch, step.slope_exponent);
}

__global__ void __launch_bounds__(kThreads)
    update_kernel(const __grid_constant__ StepArguments step) {
  const std::int64_t i = thread_index();
  const std::int32_t slope = slope_of(step);
  if (i == 0) {
    step.result->slope = slope;
    step.progress->step = step.progress->now + 1;
  }
  WeightBlock weights = load_block(step, i);
  if (weights.layer < 0) return;
  const bool below = weights.layer < step.network.boundary;
  if (below && (slope == 0 || !step.network.layers[weights.layer].perturbed)) return;
  if (below) {
    move_by_noise(step, slope, weights);
  } else {
    move_by_gradient(step, weights);
  }
  std::uint32_t saturated = 0;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    if (j >= weights.count) {
      weights.values[j] = 0;
      continue;
    }
    if (magnitude(weights.values[j]) == kLargestMantissa) ++saturated;
  }
  *reinterpret_cast<uint2*>(step.weights + i * 8) = weights.words;
  if (!below && step.saturated_share < 65536 && saturated > 0)
    atomicAdd(&step.saturated[weights.layer], saturated);
}

/// Halves the mantissas of layers with too many saturated weights.
__global__ void __launch_bounds__(kThreads)
    widen_kernel(const __grid_constant__ StepArguments step) {
  const std::int64_t i = thread_index();
  WeightBlock weights = load_block(step, i);
  if (weights.layer < 0) return;
  const std::int64_t count = step.network.layers[weights.layer].weight_count;
  if (std::int64_t{step.saturated[weights.layer]} * 65536 <= step.saturated_share * count) return;
  const RandomWords random =
      random_words(random_key(step.seed, RandomStream::WeightHalving, step.progress->now),
                   static_cast<std::uint64_t>(weights.block));
#pragma unroll
  for (int j = 0; j < 8; ++j)
    weights.values[j] =
        static_cast<std::int8_t>(round_stochastic(weights.values[j], 1, half_word(random, j)));
  *reinterpret_cast<uint2*>(step.weights + i * 8) = weights.words;
  if (weights.first == 0) ++step.exponents[weights.layer];
}

unsigned weight_blocks(const StepArguments& step) {
  const std::int64_t per_block = 8 * kThreads;
  return static_cast<unsigned>(divide_up(step.weight_bytes, per_block));
}

}  // namespace

void launch_prepare(const StepArguments& step, cudaStream_t stream) {
  prepare_kernel<<<weight_blocks(step), kThreads, 0, stream>>>(step);
  check_launch("launch_prepare");
}

void launch_update(const StepArguments& step, cudaStream_t stream) {
  update_kernel<<<weight_blocks(step), kThreads, 0, stream>>>(step);
  check_launch("launch_update");
  if (step.saturated_share >= 65536) return;
  widen_kernel<<<weight_blocks(step), kThreads, 0, stream>>>(step);
  check_launch("launch_update");
}

}  // namespace triaccel::int8::cuda
