#include "triaccel/base/divide_up.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/common/overlapped_launch.cuh"
#include "triaccel/kernels/excitation/squeeze_excite.h"
#include "triaccel/kernels/norm/batch_norm_math.h"

namespace triaccel::kernels::cuda {
namespace {

constexpr int kQuad = 4;              // channels of a thread
constexpr int kChannels = 2 * kQuad;  // of a block: the 32 bytes of a sector
constexpr int kSharedFloats = (48 << 10) / sizeof(float);

/// What a thread adds up, for one hidden unit and four channels.
struct ExciteSums {
  float squeeze[kQuad], excite[kQuad], excite_bias[kQuad], squeeze_bias;

  static constexpr int kCount = 3 * kQuad + 1;
};

static_assert(sizeof(ExciteSums) == ExciteSums::kCount * sizeof(float));

/// Samples that are in shared memory together: of each two numbers a hidden unit and a channel.
int samples_at_once(const ExciteShape& shape) {
  const std::int64_t most = kSharedFloats / (2 * shape.hidden + 2 * kChannels);
  const std::int64_t turns = std::max<std::int64_t>(1, divide_up(shape.samples, most));
  return static_cast<int>(divide_up(shape.samples, turns));
}

__device__ void store(const ExciteGradient& into, std::int64_t element, float value) {
  with_stored_type(into.type, [&]<typename Stored>(Stored) {
    static_cast<typename Stored::Word*>(into.values)[element] = Stored::word(value);
  });
}

/// A block has a few channels and all hidden units, its threads some of the samples each.
template <typename Stored>
__global__ void __launch_bounds__(kThreads)
    excite_parameters_kernel(const __grid_constant__ ExciteShape shape,
                             const __grid_constant__ ExciteParameters params, int at_once) {
  using Word = typename Stored::Word;
  extern __shared__ float4 shared_memory[];
  auto* shared = reinterpret_cast<float*>(shared_memory);
  float* of_gates = shared;  // [sample][channel]
  float* means = of_gates + at_once * kChannels;
  const int units = static_cast<int>(shape.hidden);
  float* activated = means + at_once * kChannels;  // [sample][unit]
  float* of_hidden = activated + at_once * units;
  const int thread = static_cast<int>(threadIdx.x);
  const int items = units * (kChannels / kQuad), slices = kThreads / items;
  const int slice = thread / items, unit = thread % items % units;
  const int quad = thread % items / units * kQuad;
  const std::int64_t first_channel = std::int64_t{blockIdx.x} * kChannels;
  wait_for_previous_kernel();

  ExciteSums sums = {};
  for (std::int64_t first = 0; first < shape.samples; first += at_once) {
    const int count = static_cast<int>(min(std::int64_t{at_once}, shape.samples - first));
    if (first > 0) __syncthreads();
    for (int i = thread; i < count * kChannels; i += kThreads) {
      const std::int64_t channel = first_channel + i % kChannels;
      const std::int64_t element = (first + i / kChannels) * shape.channels + channel;
      const bool real = channel < shape.channels;
      const auto read = [&](const void* array) {
        return real ? Stored::value(static_cast<const Word*>(array)[element]) : 0.0f;
      };
      of_gates[i] = sigmoid_gradient(read(params.gates), read(params.gates_gradient));
      means[i] = read(params.means);
    }
    for (int i = thread; i < count * units; i += kThreads) {
      activated[i] = silu(params.hidden[first * units + i]);
      of_hidden[i] = params.hidden_gradient[first * units + i];
    }
    __syncthreads();
    if (slice >= slices) continue;
#pragma unroll 4
    for (int sample = slice; sample < count; sample += slices) {
      const float h = activated[sample * units + unit], d = of_hidden[sample * units + unit];
      const float4 g = *reinterpret_cast<const float4*>(of_gates + sample * kChannels + quad);
      const float4 m = *reinterpret_cast<const float4*>(means + sample * kChannels + quad);
      const float gs[kQuad] = {g.x, g.y, g.z, g.w}, ms[kQuad] = {m.x, m.y, m.z, m.w};
#pragma unroll
      for (int k = 0; k < kQuad; ++k) {
        sums.excite[k] += h * gs[k];
        sums.squeeze[k] += d * ms[k];
        sums.excite_bias[k] += gs[k];
      }
      sums.squeeze_bias += d;
    }
  }

  __syncthreads();
  auto& numbers = reinterpret_cast<float(&)[ExciteSums::kCount]>(sums);
#pragma unroll
  for (int k = 0; k < ExciteSums::kCount; ++k) shared[k * kThreads + thread] = numbers[k];
  __syncthreads();
  if (thread >= items) return;
#pragma unroll
  for (int k = 0; k < ExciteSums::kCount; ++k)
    for (int other = 1; other < slices; ++other)
      numbers[k] += shared[k * kThreads + other * items + thread];
#pragma unroll
  for (int k = 0; k < kQuad; ++k) {
    const std::int64_t channel = first_channel + quad + k;
    if (channel >= shape.channels) break;
    store(params.squeeze, unit * shape.channels + channel, sums.squeeze[k]);
    store(params.excite, channel * units + unit, sums.excite[k]);
    if (unit == 0) params.excite_bias[channel] = sums.excite_bias[k];
  }
  if (first_channel == 0 && quad == 0) params.squeeze_bias[unit] = sums.squeeze_bias;
}

}  // namespace

void excite_parameters(const ExciteShape& shape, const ExciteParameters& params,
                       cudaStream_t stream) {
  ensure(excite_fits(shape), "every hidden unit has a thread");
  const int at_once = samples_at_once(shape);
  const std::int64_t floats = std::max<std::int64_t>(at_once * (2 * shape.hidden + 2 * kChannels),
                                                     ExciteSums::kCount * kThreads);
  with_stored_type(shape.type, [&]<typename Stored>(Stored) {
    launch_overlapped("excite_parameters", excite_parameters_kernel<Stored>,
                      {.grid = blocks_for(shape.channels, kChannels),
                       .threads = unsigned(kThreads),
                       .shared_bytes = unsigned(floats * std::int64_t{sizeof(float)})},
                      stream, shape, params, at_once);
  });
}

}  // namespace triaccel::kernels::cuda
