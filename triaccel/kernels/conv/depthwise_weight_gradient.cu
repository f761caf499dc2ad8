#include "triaccel/kernels/common/block_sums.cuh"
#include "triaccel/kernels/conv/depthwise.cuh"

namespace triaccel::kernels::cuda {
namespace {

constexpr std::string_view kWho = "depthwise_weight_gradient";
constexpr int kMaxThreads = 512;

struct WeightJob {
  const void* output_gradient;
  const void* input;
  float* sums;  // [gridDim.y][channel][tap]
  MapSize input_size, output_size;
  std::int32_t padding_rows, padding_columns;
  std::int64_t channels;
  StripCut cut;  // of the output map
};

/// Adds the sums of all threads that share a lane, in the same order every time, and stores them as
/// [lane][channel of its pack][tap], `end` being the number that belong to real channels.
template <int lanes, int channels, int taps>
__device__ void store_block_sums(float (&sums)[taps][channels], float* to, std::int64_t end) {
  constexpr int count = lanes * channels * taps;
  __shared__ float slots[kMaxThreads / 32 / 2][count];
  const int thread = threadIdx.y * lanes + threadIdx.x;
  const int warp = thread / 32, warps = blockDim.y * lanes / 32;
  float* const lane_slot = slots[0] + threadIdx.x * channels * taps;
  const bool keeps = thread % 32 < lanes;  // for all of its warp
  const auto for_each_sum = [&](auto body) {
#pragma unroll
    for (int t = 0; t < taps; ++t)
#pragma unroll
      for (int v = 0; v < channels; ++v) body(sums[t][v], v * taps + t);
  };
  for_each_sum([](float& sum, int) {
#pragma unroll
    for (int distance = 16; distance >= lanes; distance /= 2)
      sum += __shfl_xor_sync(~0u, sum, distance);
  });
  for (int half = warps / 2; half > 0; half /= 2) {
    if (keeps && warp >= half && warp < 2 * half)
      for_each_sum([&](float& sum, int i) { lane_slot[(warp - half) * count + i] = sum; });
    __syncthreads();
    if (keeps && warp < half)
      for_each_sum([&](float& sum, int i) { sum += lane_slot[warp * count + i]; });
    __syncthreads();
  }
  if (keeps && warp == 0) for_each_sum([&](float& sum, int i) { lane_slot[i] = sum; });
  __syncthreads();
  for (int i = thread; i < count && i < end; i += warps * 32) to[i] = slots[0][i];
}

/// Adds one strip to `sums`. The mirror image of the forward kernel: its sums are the output's
/// gradient here, which enters the ring a row at a time, and its taps are the sums.
template <int filter, int stride, typename Pack>
__device__ __forceinline__ void add_strip(const WeightJob& job, std::uint32_t strip,
                                          std::int32_t index, Pack pack,
                                          float (&sums)[filter * filter][Pack::kChannels]) {
  using Word = typename Pack::Word;
  constexpr int channels = Pack::kChannels;
  constexpr int slots = divide_up(filter, stride);
  constexpr int turn = slots * stride;
  constexpr int columns = (kStripColumns - 1) * stride + filter;

  const StripPlace place = locate_strip(job.cut, job.output_size.rows, strip);
  ColumnReader<Word, columns> input(job.input, job.input_size, job.cut.packs, place.image,
                                    place.row * stride - job.padding_rows,
                                    place.column * stride - job.padding_columns, index);
  ColumnReader<Word, kStripColumns> gradient(job.output_gradient, job.output_size, job.cut.packs,
                                             place.image, place.row, place.column, index);
  Word ring[slots][kStripColumns] = {};  // packed: unpacked it would not fit into registers
  Word next[columns], next_gradient[kStripColumns];
  gradient.load_row(true, next_gradient);
  bool next_live = input.load_row(true, next);
  const std::int32_t steps = (place.rows - 1) * stride + filter;
  for (std::int32_t base = 0;; base += turn) {
#pragma unroll
    for (int u = 0; u < turn; ++u) {
      const std::int32_t step = base + u;
      if (step >= steps) return;
      if (u % stride == 0) {
#pragma unroll
        for (int p = 0; p < kStripColumns; ++p) ring[u / stride][p] = next_gradient[p];
      }
      Word row[columns];
#pragma unroll
      for (int c = 0; c < columns; ++c) row[c] = next[c];
      const bool live = next_live;
      next_live = input.load_row(step + 1 < steps, next);
      if ((u + 1) % stride == 0) gradient.load_row((step + 1) / stride < place.rows, next_gradient);
      if (!live) continue;
      float x[columns][channels];
#pragma unroll
      for (int c = 0; c < columns; ++c) pack.unpack(row[c], x[c]);
#pragma unroll
      for (int tap_row = 0; tap_row < filter; ++tap_row) {
        const int ahead = u - tap_row + 2 * turn;
        if (ahead % stride != 0) continue;
#pragma unroll
        for (int p = 0; p < kStripColumns; ++p) {
          float dy[channels];
          pack.unpack(ring[ahead / stride % slots][p], dy);
#pragma unroll
          for (int tap_column = 0; tap_column < filter; ++tap_column)
#pragma unroll
            for (int v = 0; v < channels; ++v)
              sums[tap_row * filter + tap_column][v] += dy[v] * x[p * stride + tap_column][v];
        }
      }
    }
  }
}

template <typename Pack, int filter, int stride>
__global__ void __launch_bounds__(kMaxThreads, 1)
    weight_kernel(const __grid_constant__ WeightJob job, Pack pack) {
  constexpr int channels = Pack::kChannels, taps = filter * filter;
  const auto group = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t index = group * kLanes<Pack> + static_cast<std::int32_t>(threadIdx.x);
  const auto strips = static_cast<std::uint32_t>(index < job.cut.packs ? job.cut.strips : 0);
  float sums[taps][channels] = {};
  wait_for_previous_kernel();
  for (std::uint32_t strip = blockIdx.y * blockDim.y + threadIdx.y; strip < strips;
       strip += gridDim.y * blockDim.y)
    add_strip<filter, stride>(job, strip, index, pack, sums);
  let_next_kernel_begin();
  const std::int64_t first = std::int64_t{group} * kLanes<Pack> * channels * taps;
  const std::int64_t end = job.channels * taps;
  store_block_sums<kLanes<Pack>>(sums, job.sums + blockIdx.y * end + first, end - first);
}

struct SamePlace {
  __device__ std::int64_t operator()(std::int64_t i) const { return i; }
};

template <int stride>
void launch(const DepthwiseShape& shape, const WeightGradientWork& work, const WeightJob& job,
            cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(work.cut.groups), static_cast<unsigned>(work.blocks));
  with_filter_and_pack(shape, [&](auto filter, auto pack) {
    using Pack = decltype(pack);
    const dim3 block(kLanes<Pack>, static_cast<unsigned>(work.threads / kLanes<Pack>));
    launch_overlapped(kWho, weight_kernel<Pack, decltype(filter)::kValue, stride>,
                      {.grid = grid, .threads = block}, stream, job, pack);
  });
}

}  // namespace

void depthwise_weight_gradient(const DepthwiseShape& shape, const void* output_gradient,
                               const void* input, float* scratch, float* weight_gradient,
                               cudaStream_t stream) {
  if (shape.channels == 0) return;
  const WeightGradientWork work = weight_gradient_work(shape);
  const WeightJob job = {
      .output_gradient = output_gradient,
      .input = input,
      .sums = work.blocks > 1 ? scratch : weight_gradient,
      .input_size = size_of(shape.rows.input, shape.columns.input),
      .output_size = size_of(shape.rows.output, shape.columns.output),
      .padding_rows = static_cast<std::int32_t>(shape.rows.padding),
      .padding_columns = static_cast<std::int32_t>(shape.columns.padding),
      .channels = shape.channels,
      .cut = work.cut,
  };
  shape.stride == 1 ? launch<1>(shape, work, job, stream) : launch<2>(shape, work, job, stream);
  if (work.blocks == 1) return;
  const std::int64_t count = shape.channels * shape.filter * shape.filter;
  add_blocks(kWho, {.numbers = scratch, .blocks = work.blocks, .count = count}, weight_gradient,
             SamePlace{}, stream);
}

}  // namespace triaccel::kernels::cuda
