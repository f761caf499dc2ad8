#include <cstdint>

#include "triaccel/int8/cuda/launch_check.cuh"
#include "triaccel/int8/cuda/launches.h"
#include "triaccel/int8/cuda/sample_kernel.cuh"
#include "triaccel/int8/cuda/warp_logits.cuh"
#include "triaccel/int8/training/random_stream.h"

namespace triaccel::int8::cuda {
namespace {

/// State shared by the threads of a block.
struct SampleShared {
  std::uint32_t largest[kMostStreams];
  std::int32_t shift[kMostStreams];
  std::int32_t exponent[kMostStreams];
  std::int32_t kept_exponent[kMostLayers];
  std::int32_t error_exponent;
};

/// Chooses the shift of each stream from its largest |sum| and updates its exponent.
__device__ void choose_shifts(const StepArguments& step, std::int32_t l,
                              const std::uint32_t* largest, SampleShared& shared) {
  const auto stream = static_cast<std::int32_t>(threadIdx.x);
  if (stream >= step.network.streams) return;
  shared.shift[stream] = requant_shift(largest[takes_plus_shift(step, stream) ? 0 : stream]);
  shared.exponent[stream] += step.exponents[l] + shared.shift[stream];
}

/// The next layer's input of each stream from this layer's sums; `clear_bytes` has run.
__device__ void place_sums(const StepArguments& step, const SampleLayout& layout,
                           const DeviceLayer& layer, const DeviceLayer& next,
                           const std::int32_t* sums, const SampleShared& shared,
                           std::int8_t* placed) {
  for (std::int32_t stream = 0; stream < step.network.streams; ++stream) {
    std::int8_t* to = placed + stream * layout.placed_stride;
    for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < layer.outputs;
         i += kSampleThreads)
      to[placed_at(next, i)] =
          activation(sums[stream * layer.outputs + i], shared.shift[stream], layer.relu);
  }
}

/// Copies the sample to the first layer's input; a linear layer has one copy per stream.
__device__ void place_sample(const StepArguments& step, const SampleLayout& layout,
                             std::int8_t* placed) {
  const DeviceLayer& layer = step.network.layers[0];
  const std::int8_t* from = step.inputs + std::int64_t{blockIdx.x} * layer.inputs;
  const std::int32_t copies = layer.kind == LayerKind::Linear ? step.network.streams : 1;
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < layer.inputs;
       i += kSampleThreads) {
    for (std::int32_t copy = 0; copy < copies; ++copy)
      placed[copy * layout.placed_stride + placed_at(layer, i)] = from[i];
  }
}

/// After point layers: converts their sums to the first linear layer's input.
__device__ void place_points(const StepArguments& step, const SampleLayout& layout,
                             const SampleMemory& memory, SampleShared& shared) {
  const auto sample = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t last = step.network.features - 1;
  for (std::int32_t l = 0; l <= last; ++l)
    choose_shifts(step, l, step.largest + step.largest_at(l, sample, 0), shared);
  __syncthreads();
  const DeviceLayer& layer = step.network.layers[last];
  const std::int64_t first = std::int64_t{sample} * step.network.streams * layer.outputs;
  const std::int32_t* sums =
      layer.pooling == Pooling::None ? step.point_sums[last % 2] : step.pooled;
  place_sums(step, layout, layer, step.network.layers[last + 1], sums + first, shared,
             memory.placed);
}

/// Saves the input of a backpropagated layer.
__device__ void keep_input(const StepArguments& step, const SampleLayout& layout, std::int32_t l,
                           const SampleMemory& memory, SampleShared& shared) {
  const DeviceLayer& layer = step.network.layers[l];
  if (!layer.backpropagated) return;
  const std::int8_t* from = memory.placed + step.backprop * layout.placed_stride;
  std::int8_t* to = step.kept_row(layer, static_cast<std::int32_t>(blockIdx.x));
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x) * 16; i < layer.panel_stride;
       i += kSampleThreads * 16)
    *reinterpret_cast<int4*>(to + i) = load16(from + i);
  if (threadIdx.x == 0) shared.kept_exponent[l] = shared.exponent[step.backprop];
}

/// Loss of each stream (one warp each) and the error to propagate.
__device__ void take_losses(const StepArguments& step, const SampleMemory& memory,
                            SampleShared& shared, std::int8_t* error) {
  const auto stream = static_cast<std::int32_t>(threadIdx.x) / 32;
  if (stream >= step.network.streams) return;
  const auto lane = static_cast<std::int32_t>(threadIdx.x) % 32;
  const auto sample = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t last = step.network.count - 1;
  const std::int32_t classes = step.network.layers[last].outputs;
  const std::int32_t exponent = shared.exponent[stream] + step.exponents[last];
  const std::int32_t label = step.labels[sample];
  const WarpLogits logits = {memory.sums + stream * classes, classes, exponent};
  const std::int32_t top = logits.largest(lane);
  const LogitSummary summary = logits.summary(lane, top);
  const bool right = logits.values[label] == top && !logits.has_before(lane, label, top);
  if (lane == 0) {
    const std::int64_t loss = loss_bits(summary, logits.values[label], exponent);
    atomicAdd(reinterpret_cast<unsigned long long*>(&step.result->loss[stream]),
              static_cast<unsigned long long>(loss));
    if (right) atomicAdd(&step.result->correct[stream], 1);
  }
  if (stream != step.backprop) return;
  logits.errors(lane, summary, label, sample,
                random_key(step.seed, RandomStream::LossError, step.progress->now), error);
  if (lane == 0) shared.error_exponent = kLossErrorExponent;
}

/// Stores a layer's error for the gradient, with the exponent of error · input.
__device__ void keep_error(const StepArguments& step, std::int32_t l, const std::int8_t* error,
                           const SampleShared& shared) {
  const DeviceLayer& layer = step.network.layers[l];
  const auto sample = static_cast<std::int32_t>(blockIdx.x);
  std::int8_t* to = step.error_row(layer, sample);
  const std::int32_t exponent = shared.error_exponent + shared.kept_exponent[l];
  bool any = false;
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < layer.error_stride;
       i += kSampleThreads) {
    const std::int8_t value = i < layer.outputs ? error[i] : std::int8_t{0};
    to[i] = value;
    any = any || value != 0;
  }
  if (threadIdx.x == 0) step.error_exponents[step.exponent_at(l, sample)] = exponent;
  if (__any_sync(kWholeWarp, any) && threadIdx.x % 32 == 0)
    atomicMax(&step.common_exponent[l], exponent);
}

/// Sums of Wᵀ · error: a warp processes every kSampleWarps-th output, a lane four inputs at a time.
__device__ void sum_input_error(const StepArguments& step, std::int32_t l, const std::int8_t* error,
                                std::int32_t* sums) {
  const DeviceLayer& layer = step.network.layers[l];
  const auto warp = static_cast<std::int32_t>(threadIdx.x) / 32;
  const auto lane = static_cast<std::int32_t>(threadIdx.x) % 32;
  const std::int8_t* panel = step.panel(layer, 0);
  for (std::int32_t i = lane * 4; i < layer.inputs; i += 128) {
    std::int32_t sum[4] = {};
    for (std::int32_t o = warp; o < layer.outputs; o += kSampleWarps) {
      const std::int32_t factor = error[o];
      const std::uint32_t weights =
          *reinterpret_cast<const std::uint32_t*>(panel + std::int64_t{o} * layer.panel_stride + i);
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[j] += factor * static_cast<std::int8_t>(weights >> (8 * j));
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (i + j < layer.inputs) atomicAdd(&sums[i + j], sum[j]);
  }
}

/// The error after the ReLU of the layer before `l`.
__device__ void requantise_error(const StepArguments& step, std::int32_t l,
                                 const std::int32_t* sums, std::int32_t shift, std::int8_t* to) {
  const DeviceLayer& layer = step.network.layers[l];
  const bool relu = step.network.layers[l - 1].relu;
  const std::int8_t* input = step.kept_row(layer, static_cast<std::int32_t>(blockIdx.x));
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < layer.inputs;
       i += kSampleThreads)
    to[i] = relu && input[i] <= 0 ? std::int8_t{0} : requantise(sums[i], shift);
}

__device__ void backpropagate(const StepArguments& step, const SampleMemory& memory,
                              SampleShared& shared, std::int8_t* error, std::int8_t* other) {
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  for (std::int32_t l = step.network.count - 1;; --l) {
    keep_error(step, l, error, shared);
    if (l == step.network.boundary) return;
    const std::int32_t inputs = step.network.layers[l].inputs;
    for (std::int32_t i = thread; i < inputs; i += kSampleThreads) memory.sums[i] = 0;
    if (thread == 0) shared.largest[0] = 0;
    __syncthreads();
    sum_input_error(step, l, error, memory.sums);
    __syncthreads();
    std::uint32_t largest = 0;
    for (std::int32_t i = thread; i < inputs; i += kSampleThreads)
      largest = larger(largest, magnitude(memory.sums[i]));
    largest = warp_largest(largest);
    if (thread % 32 == 0) atomicMax(&shared.largest[0], largest);
    __syncthreads();
    const std::int32_t shift = requant_shift(shared.largest[0]);
    requantise_error(step, l, memory.sums, shift, other);
    if (thread == 0) shared.error_exponent += step.exponents[l] + shift;
    __syncthreads();
    std::int8_t* const swap = error;
    error = other;
    other = swap;
  }
}

__global__ void __launch_bounds__(kSampleThreads, 2)
    sample_kernel(const __grid_constant__ StepArguments step,
                  const __grid_constant__ SampleLayout layout) {
  extern __shared__ int4 dynamic_memory[];
  __shared__ SampleShared shared;
  auto* const base = reinterpret_cast<std::int8_t*>(dynamic_memory);
  const SampleMemory memory = {.placed = base,
                               .sums = reinterpret_cast<std::int32_t*>(base + layout.sums),
                               .patches = base + layout.patches,
                               .offsets = reinterpret_cast<std::uint16_t*>(base + layout.offsets),
                               .largest = shared.largest};
  const DeviceNetwork& network = step.network;
  const bool points = network.layers[0].kind == LayerKind::Points;
  const std::int32_t first = points ? network.features : 0;
  const std::int32_t placed_bytes = network.streams * layout.placed_stride;
  if (threadIdx.x < kMostStreams) {
    shared.largest[threadIdx.x] = 0;
    shared.exponent[threadIdx.x] = step.input_exponent;
  }
  clear_bytes(memory.placed, placed_bytes);
  __syncthreads();
  if (points) {
    place_points(step, layout, memory, shared);
  } else {
    place_sample(step, layout, memory.placed);
  }
  __syncthreads();
  for (std::int32_t l = first;; ++l) {
    keep_input(step, layout, l, memory, shared);
    if (network.layers[l].kind == LayerKind::Convolution) {
      convolve(step, layout, l, memory);
    } else {
      multiply(step, layout, l, memory);
    }
    __syncthreads();
    if (l + 1 == network.count) break;
    choose_shifts(step, l, shared.largest, shared);
    clear_bytes(memory.placed, placed_bytes);
    __syncthreads();
    if (threadIdx.x < kMostStreams) shared.largest[threadIdx.x] = 0;
    place_sums(step, layout, network.layers[l], network.layers[l + 1], memory.sums, shared,
               memory.placed);
    __syncthreads();
  }
  std::int8_t* const error = base + layout.errors;
  take_losses(step, memory, shared, error);
  if (step.backprop < 0) return;
  __syncthreads();
  backpropagate(step, memory, shared, error, error + layout.error_stride);
}

}  // namespace

void reserve_sample_memory(const SampleLayout& layout) {
  raise_shared_memory(sample_kernel, layout.bytes, "reserve_sample_memory");
}

void launch_sample_pass(const StepArguments& step, const SampleLayout& layout,
                        cudaStream_t stream) {
  sample_kernel<<<static_cast<unsigned>(step.batch), kSampleThreads,
                  static_cast<unsigned>(layout.bytes), stream>>>(step, layout);
  check_launch("launch_sample_pass");
}

}  // namespace triaccel::int8::cuda
