#include <cuda_pipeline_primitives.h>

#include "triaccel/base/divide_up.h"
#include "triaccel/kernels/common/cluster_mailbox.cuh"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/common/overlapped_launch.cuh"
#include "triaccel/kernels/excitation/squeeze_excite.h"
#include "triaccel/kernels/norm/batch_norm_math.h"

// Forward and backward are one chain: numbers by channel times one weight give numbers by hidden
// unit, which, each changed by itself, times the other weight give numbers by channel again. A
// cluster takes a few samples and each of its blocks a run of channels: the columns of the one
// weight and the rows of the other that belong to the run lie in its shared memory, all asked for
// at once. The blocks add up the hidden numbers in each other's shared memory.

namespace triaccel::kernels::cuda {
namespace {

constexpr int kMaxBlocks = 8;           // of a cluster: what every chip with clusters takes
constexpr int kRunChannels = 144;       // of a block, where clusters are large enough
constexpr int kMaxSamples = 8;          // of a cluster
constexpr int kMaxHidden = 128;         // what the kernel of the parameters takes
constexpr int kPlainShared = 48 << 10;  // bytes that a kernel may have without asking

struct ChainPlan {
  int blocks = 1;   // of a cluster
  int run = 0;      // channels of a block; the last block's may be shorter
  int samples = 1;  // of a cluster
};

/// Where things lie in a block's shared memory, in floats. Weights have rows of odd length, so that
/// a warp meets as many banks along a column as along a row.
struct ChainLayout {
  int squeeze_pitch, excite_pitch;
  int pairs;  // of hidden numbers that a block sends
  int squeeze, excite, values, parts, mail, hidden, end;

  __host__ __device__ ChainLayout(const ChainPlan& plan, int hidden_units)
      : squeeze_pitch(plan.run | 1),
        excite_pitch(hidden_units | 1),
        pairs((hidden_units * plan.samples + 1) / 2),
        squeeze(0),
        excite(aligned(squeeze + hidden_units * squeeze_pitch)),
        values(aligned(excite + plan.run * excite_pitch)),
        parts(aligned(values + plan.run * plan.samples)),
        mail(parts + kThreads * plan.samples),
        hidden(aligned(mail + plan.blocks * pairs * 2)),
        end(aligned(hidden + hidden_units * plan.samples)) {}

  __host__ __device__ static int aligned(int place) { return (place + 3) / 4 * 4; }
};

ChainPlan plan_chain(const ExciteShape& shape) {
  const bool clusters =
      code_is_for_sm_90() && device_attribute("squeeze_excite", cudaDevAttrClusterLaunch) != 0;
  ChainPlan plan;
  const std::int64_t wanted = divide_up(shape.channels, kRunChannels);
  const std::int64_t blocks = std::clamp<std::int64_t>(wanted, 1, clusters ? kMaxBlocks : 1);
  plan.run = static_cast<int>(divide_up(shape.channels, blocks));
  plan.blocks = static_cast<int>(divide_up(shape.channels, plan.run));
  plan.samples = kMaxSamples;
  const int multiprocessors = device_attribute("squeeze_excite", cudaDevAttrMultiProcessorCount);
  while (plan.samples > 1 &&
         2 * divide_up(shape.samples, plan.samples) * plan.blocks < multiprocessors)
    plan.samples /= 2;
  return plan;
}

int shared_bytes(const ChainPlan& plan, const ExciteShape& shape) {
  return ChainLayout(plan, static_cast<int>(shape.hidden)).end * static_cast<int>(sizeof(float));
}

/// A weight in shared memory.
struct ChainWeight {
  const float* values;
  int by_hidden, by_channel;  // from one to the next

  __device__ float operator()(int hidden, int channel) const {
    return values[hidden * by_hidden + channel * by_channel];
  }
};

/// Numbers of all samples of a cluster, side by side.
template <int kSamples>
struct alignas(kSamples < 4 ? kSamples * sizeof(float) : 16) SampleRow {
  float of[kSamples];

  __device__ void add_product(float factor, const SampleRow& other) {
#pragma unroll
    for (int s = 0; s < kSamples; ++s) of[s] += factor * other.of[s];
  }
};

template <typename Stored>
struct ForwardChain {
  static constexpr bool kSqueezesFirst = true;
  ExciteLayers layers;
  ExciteForward arrays;

  __device__ float value(std::int64_t element) const {
    return Stored::value(static_cast<const typename Stored::Word*>(arrays.means)[element]);
  }
  /// What a hidden number is made with, besides the sum.
  __device__ float given(std::int64_t, int unit) const { return layers.squeeze_bias[unit]; }
  /// The number that goes on, and the one that is kept.
  __device__ float2 hidden(float bias, float sum) const {
    const float before = bias + sum;
    return {silu(before), before};
  }
  __device__ float* kept() const { return arrays.hidden; }
  __device__ float start(int channel) const { return layers.excite_bias[channel]; }
  __device__ void store(std::int64_t element, float sum) const {
    static_cast<typename Stored::Word*>(arrays.gates)[element] = Stored::word(sigmoid(sum));
  }
};

template <typename Stored>
struct BackwardChain {
  static constexpr bool kSqueezesFirst = false;
  ExciteLayers layers;
  ExciteBackward arrays;

  __device__ float value(std::int64_t element) const {
    using Word = typename Stored::Word;
    return sigmoid_gradient(
        Stored::value(static_cast<const Word*>(arrays.gates)[element]),
        Stored::value(static_cast<const Word*>(arrays.gates_gradient)[element]));
  }
  __device__ float given(std::int64_t element, int) const { return arrays.hidden[element]; }
  __device__ float2 hidden(float before, float sum) const {
    const float gradient = sum * silu_slope(before);
    return {gradient, gradient};
  }
  __device__ float* kept() const { return arrays.hidden_gradient; }
  __device__ float start(int) const { return 0; }
  __device__ void store(std::int64_t element, float sum) const {
    static_cast<typename Stored::Word*>(arrays.means_gradient)[element] = Stored::word(sum);
  }
};

/// A warp per row. Everything is under way when it returns.
__device__ void begin_loading(float* to, int pitch, const float* from, std::int64_t from_pitch,
                              int rows, int columns) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int row = warp; row < rows; row += kThreads / 32)
    for (int column = lane; column < columns; column += 32)
      __pipeline_memcpy_async(to + row * pitch + column, from + row * from_pitch + column,
                              sizeof(float));
}

template <typename Chain, int kSamples>
__global__ void __launch_bounds__(kThreads)
    excite_kernel(const __grid_constant__ ExciteShape shape, const __grid_constant__ Chain chain,
                  ChainPlan plan) {
  using Row = SampleRow<kSamples>;
  extern __shared__ float4 shared_memory[];
  __shared__ ClusterMailbox mailbox;
  auto* shared = reinterpret_cast<float*>(shared_memory);
  const int thread = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  const int units = static_cast<int>(shape.hidden), entries = units * kSamples;
  const int rank = block % plan.blocks, first_channel = rank * plan.run;
  const int run = min(plan.run, static_cast<int>(shape.channels) - first_channel);
  const std::int64_t first_sample = std::int64_t{block / plan.blocks} * kSamples;
  const int samples = static_cast<int>(min(std::int64_t{kSamples}, shape.samples - first_sample));
  const ChainLayout layout(plan, units);
  auto* mail = reinterpret_cast<float2*>(shared + layout.mail);
  if (plan.blocks > 1) mailbox.open(plan.blocks * layout.pairs * static_cast<int>(sizeof(float2)));
  wait_for_previous_kernel();

  begin_loading(shared + layout.squeeze, layout.squeeze_pitch, chain.layers.squeeze + first_channel,
                shape.channels, units, run);
  begin_loading(shared + layout.excite, layout.excite_pitch,
                chain.layers.excite + std::int64_t{first_channel} * units, units, run, units);
  __pipeline_commit();
  float* values = shared + layout.values;
  for (int i = thread; i < run * kSamples; i += kThreads) {
    const int sample = i / run, channel = i % run;
    const std::int64_t element = (first_sample + sample) * shape.channels + first_channel + channel;
    values[channel * kSamples + sample] = sample < samples ? chain.value(element) : 0.0f;
  }
  float* hidden = shared + layout.hidden;
  const auto hidden_element = [&](int i) {
    return (first_sample + i % kSamples) * units + i / kSamples;
  };
  for (int i = thread; i < entries; i += kThreads)
    hidden[i] = i % kSamples < samples ? chain.given(hidden_element(i), i / kSamples) : 0.0f;
  __pipeline_wait_prior(0);
  __syncthreads();

  const ChainWeight squeeze = {shared + layout.squeeze, layout.squeeze_pitch, 1};
  const ChainWeight excite = {shared + layout.excite, 1, layout.excite_pitch};
  const ChainWeight first = Chain::kSqueezesFirst ? squeeze : excite;
  const ChainWeight second = Chain::kSqueezesFirst ? excite : squeeze;

  // The threads of one hidden unit share the channels.
  const int slices = kThreads / units;
  float* parts = shared + layout.parts;
  if (thread < slices * units) {
    const int unit = thread % units;
    const auto* rows = reinterpret_cast<const Row*>(values);
    Row sum = {};
#pragma unroll 4
    for (int channel = thread / units; channel < run; channel += slices)
      sum.add_product(first(unit, channel), rows[channel]);
    reinterpret_cast<Row*>(parts)[thread] = sum;
  }
  __syncthreads();

  if (plan.blocks > 1) mailbox.wait_for_peers();
  for (int pair = thread; pair < layout.pairs; pair += kThreads) {
    const bool whole = 2 * pair + 1 < entries;
    float2 sum = {};
    for (int slice = 0; slice < slices; ++slice) {
      const float* part = parts + slice * entries + 2 * pair;
      sum.x += part[0];
      if (whole) sum.y += part[1];
    }
    if (plan.blocks == 1) mail[pair] = sum;
    for (int to = 0; plan.blocks > 1 && to < plan.blocks; ++to)
      mailbox.send(to, mail + rank * layout.pairs + pair, sum);
  }
  if (plan.blocks > 1)
    mailbox.wait_for_mail();
  else
    __syncthreads();

  for (int i = thread; i < entries; i += kThreads) {
    float sum = 0;
    for (int from = 0; from < plan.blocks; ++from)
      sum += shared[layout.mail + from * layout.pairs * 2 + i];
    const float2 found = chain.hidden(hidden[i], sum);
    if (rank == 0 && i % kSamples < samples) chain.kept()[hidden_element(i)] = found.y;
    hidden[i] = found.x;
  }
  __syncthreads();

  for (int channel = thread; channel < run; channel += kThreads) {
    const float start = chain.start(first_channel + channel);
    const auto* rows = reinterpret_cast<const Row*>(hidden);
    Row sum = {};
#pragma unroll 4
    for (int unit = 0; unit < units; ++unit) sum.add_product(second(unit, channel), rows[unit]);
#pragma unroll
    for (int sample = 0; sample < kSamples; ++sample)
      if (sample < samples)
        chain.store((first_sample + sample) * shape.channels + first_channel + channel,
                    start + sum.of[sample]);
  }
}

template <typename Chain, int kSamples>
void launch_chain(std::string_view who, const ExciteShape& shape, const Chain& chain,
                  const ChainPlan& plan, cudaStream_t stream) {
  const auto kernel = excite_kernel<Chain, kSamples>;
  const int bytes = shared_bytes(plan, shape);
  if (bytes + static_cast<int>(sizeof(ClusterMailbox)) > kPlainShared)
    static_cast<void>(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const auto clusters = static_cast<unsigned>(divide_up(shape.samples, kSamples));
  const auto blocks = static_cast<unsigned>(plan.blocks);
  launch_overlapped(who, kernel,
                    {.grid = clusters * blocks,
                     .threads = unsigned(kThreads),
                     .shared_bytes = unsigned(bytes),
                     .cluster = blocks},
                    stream, shape, chain, plan);
}

template <typename Chain>
void run_chain(std::string_view who, const ExciteShape& shape, const Chain& chain,
               cudaStream_t stream) {
  if (shape.samples == 0) return;
  ensure(excite_fits(shape), "the weights fit into shared memory");
  const ChainPlan plan = plan_chain(shape);
  if (plan.samples == 8) return launch_chain<Chain, 8>(who, shape, chain, plan, stream);
  if (plan.samples == 4) return launch_chain<Chain, 4>(who, shape, chain, plan, stream);
  if (plan.samples == 2) return launch_chain<Chain, 2>(who, shape, chain, plan, stream);
  launch_chain<Chain, 1>(who, shape, chain, plan, stream);
}

}  // namespace

bool excite_fits(const ExciteShape& shape) {
  if (shape.channels < 1 || shape.hidden < 1 || shape.hidden > kMaxHidden) return false;
  ChainPlan plan = plan_chain(shape);
  plan.samples = kMaxSamples;                      // the answer is the same for all batches
  constexpr std::int64_t most_channels = 1 << 16;  // no overflow in what is counted in int
  return shape.channels <= most_channels &&
         shared_bytes(plan, shape) + static_cast<int>(sizeof(ClusterMailbox)) <=
             device_attribute("squeeze_excite", cudaDevAttrMaxSharedMemoryPerBlockOptin);
}

void excite_forward(const ExciteShape& shape, const ExciteLayers& layers,
                    const ExciteForward& params, cudaStream_t stream) {
  with_stored_type(shape.type, [&]<typename Stored>(Stored) {
    run_chain("excite_forward", shape, ForwardChain<Stored>{layers, params}, stream);
  });
}

void excite_backward(const ExciteShape& shape, const ExciteLayers& layers,
                     const ExciteBackward& params, cudaStream_t stream) {
  with_stored_type(shape.type, [&]<typename Stored>(Stored) {
    run_chain("excite_backward", shape, BackwardChain<Stored>{layers, params}, stream);
  });
}

}  // namespace triaccel::kernels::cuda
