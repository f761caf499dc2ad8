#include "triaccel/kernels/common/skinny_gemm.h"

#include "triaccel/kernels/common/channel_pack.cuh"
#include "triaccel/kernels/common/overlapped_launch.cuh"

// 96 rows of 512 features in BF16 are 98 KB, times a weight of 10 KB: nothing but latency. Every
// thread therefore has one pack of features to load, asks for all it needs at once, and has little
// to compute. The weight comes out of the L2 cache, where all blocks meet: of many rows a block
// takes more, to read it less often.
//
// Beyond the last row or output, the last is read again and ignored: a load
// under a condition would be issued only when its number is due. Places in the weight and in a
// block's rows are counted in int, since what finds an address stands between the end of the kernel
// before and the first load. And kernels are compiled for one block a multiprocessor: for more, the
// compiler would save registers by loading late.

namespace triaccel::kernels::cuda {
namespace {

constexpr std::int64_t kEnoughBlocks = 132;  // one for each multiprocessor of a large chip
constexpr int kGradientThreads = 32;         // a warp: 256 features in 16 bits
constexpr int kGradientOutputs = 16;         // whose weights a thread asks for at once

/// Of a forward block.
template <int kTileRows, int kTileOutputs>
struct ProductTile {
  static constexpr int kRows = kTileRows, kOutputs = kTileOutputs;
};
using SmallTile = ProductTile<2, 4>;
using LargeTile = ProductTile<4, 8>;
constexpr int kSmallGradientRows = 1, kLargeGradientRows = 4;  // of a block

/// The sum over a warp's lanes of each of kCount numbers; lane l returns that of number
/// l * kCount / 32. Lanes hand over half of what they hold at each turn, which takes about kCount
/// exchanges where summing one number after the other takes five for each. Always the farthest
/// lanes first: tiles of any size give the same bits.
template <int kCount>
__device__ float spread_sums(float (&numbers)[kCount]) {
  static_assert(kCount <= 32 && (kCount & (kCount - 1)) == 0);
  int distance = 16;
#pragma unroll
  for (int half = kCount / 2; half > 0; half /= 2) {
    const bool upper = (threadIdx.x & distance) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const std::uint32_t low = bits_of_float(numbers[i]), high = bits_of_float(numbers[i + half]);
      const float other = __shfl_xor_sync(~0u, float_from_bits(chosen(upper, low, high)), distance);
      numbers[i] = float_from_bits(chosen(upper, high, low)) + other;
    }
    distance /= 2;
  }
#pragma unroll
  for (; distance > 0; distance /= 2) numbers[0] += __shfl_xor_sync(~0u, numbers[0], distance);
  return numbers[0];
}

/// The pack at `place` of the first rows of a dense matrix.
template <typename Stored, int kPack, int kRows>
__device__ void load_rows(ChannelPack<Stored, kPack> (&packs)[kRows], const void* matrix, int pitch,
                          int last_row, int place) {
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    packs[r] = load_channels<Stored, kPack>(matrix, min(r, last_row) * pitch + place);
}

/// Blocks lie along the rows times the outputs; the threads of a block share the features.
template <typename Stored, int kPack, typename Tile>
__global__ void __launch_bounds__(kThreads, 1)
    product_kernel(SkinnyGemm shape, const void* input, const void* weight, const float* bias,
                   void* output) {
  constexpr int kRows = Tile::kRows, kOutputs = Tile::kOutputs;
  constexpr int kSums = kRows * kOutputs;  // [row][output]
  const int thread = static_cast<int>(threadIdx.x), features = static_cast<int>(shape.features);
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kRows;
  const int last_row = static_cast<int>(min(std::int64_t{kRows}, shape.rows - first_row)) - 1;
  const int first_output = static_cast<int>(blockIdx.y) * kOutputs;
  const int last_output = min(kOutputs, static_cast<int>(shape.outputs) - first_output) - 1;
  // Which of the sums this thread is going to store.
  const int row = thread / kOutputs, column = thread % kOutputs;
  const bool stores = row <= last_row && column <= last_output;
  float sums[kSums] = {};
  wait_for_previous_kernel();
  const float offset = stores && bias != nullptr ? bias[first_output + column] : 0.0f;
  using Word = typename Stored::Word;
  const Word* from = static_cast<const Word*>(input) + first_row * shape.features;
  const Word* factors = static_cast<const Word*>(weight) + first_output * features;
  for (int feature = thread * kPack; feature < features;
       feature += static_cast<int>(blockDim.x) * kPack) {
    ChannelPack<Stored, kPack> inputs[kRows], weights[kOutputs];
    load_rows(inputs, from, features, last_row, feature);
    load_rows(weights, factors, features, last_output, feature);
#pragma unroll
    for (int k = 0; k < kPack; ++k)
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int o = 0; o < kOutputs; ++o)
          sums[r * kOutputs + o] += inputs[r].value(k) * weights[o].value(k);
  }

  __shared__ float warps[kThreads / 32][kSums];
  const float mine = spread_sums(sums);
  const int lane = thread % 32;
  if (lane % (32 / kSums) == 0) warps[thread / 32][lane * kSums / 32] = mine;
  __syncthreads();
  if (!stores) return;
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kThreads / 32; ++warp)
    if (warp * 32 < static_cast<int>(blockDim.x)) sum += warps[warp][thread];
  static_cast<Word*>(output)[(first_row + row) * shape.outputs + first_output + column] =
      Stored::word(sum + offset);
}

/// Blocks lie along the rows times the features. Every thread has a pack of features, every lane
/// one of the outputs' gradients.
template <typename Stored, int kPack, int kRows>
__global__ void __launch_bounds__(kGradientThreads, 1)
    input_gradient_kernel(SkinnyGemm shape, const void* output_gradient, const void* weight,
                          void* input_gradient) {
  static_assert(kGradientThreads == 32 && kMaxSkinnyOutputs == 32);
  const int lane = static_cast<int>(threadIdx.x), outputs = static_cast<int>(shape.outputs);
  const int features = static_cast<int>(shape.features);
  const int feature = (static_cast<int>(blockIdx.y) * kGradientThreads + lane) * kPack;
  const int place = min(feature, features - kPack);  // lanes beyond the last have gradients, too
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kRows;
  const int last_row = static_cast<int>(min(std::int64_t{kRows}, shape.rows - first_row)) - 1;
  float sums[kRows][kPack] = {};
  wait_for_previous_kernel();
  ChannelPack<Stored, 1> gradients[kRows];
  load_rows(gradients,
            static_cast<const typename Stored::Word*>(output_gradient) + first_row * shape.outputs,
            outputs, last_row, min(lane, outputs - 1));
  for (int first = 0; first < outputs; first += kGradientOutputs) {
    ChannelPack<Stored, kPack> weights[kGradientOutputs];
    load_rows(weights, weight, features, outputs - first - 1, first * features + place);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float mine = gradients[r].value(0);
#pragma unroll
      for (int i = 0; i < kGradientOutputs; ++i) {
        if (first + i >= outputs) break;  // zero times an infinite weight would not be a number
        const float factor = __shfl_sync(~0u, mine, first + i);
#pragma unroll
        for (int k = 0; k < kPack; ++k) sums[r][k] += factor * weights[i].value(k);
      }
    }
  }
  if (feature >= features) return;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r > last_row) return;
    store_channels<Stored, kPack>(input_gradient, (first_row + r) * shape.features + feature,
                                  sums[r]);
  }
}

void check_counts(const SkinnyGemm& shape) {
  ensure(shape.outputs > 0 && shape.outputs <= kMaxSkinnyOutputs, "the outputs are few");
  ensure(shape.features <= kMaxSkinnyFeatures, "the weight's numbers are counted in int");
}

}  // namespace

void skinny_gemm(const SkinnyGemm& shape, const void* input, const void* weight, const float* bias,
                 void* output, cudaStream_t stream) {
  check_counts(shape);
  if (shape.rows == 0) return;
  with_channel_pack(shape.type, shape.features, aligned_for_vectors(input, weight),
                    [&]<typename Stored, int kPack>(Stored, std::integral_constant<int, kPack>) {
                      const std::int64_t warps = std::clamp<std::int64_t>(
                          divide_up(shape.features, 32 * kPack), 1, kThreads / 32);
                      const auto launch = [&]<typename Tile>(Tile) {
                        launch_overlapped("skinny_gemm", product_kernel<Stored, kPack, Tile>,
                                          {.grid = {blocks_for(shape.rows, Tile::kRows),
                                                    blocks_for(shape.outputs, Tile::kOutputs)},
                                           .threads = unsigned(32 * warps)},
                                          stream, shape, input, weight, bias, output);
                      };
                      if (divide_up(shape.rows, LargeTile::kRows) *
                              divide_up(shape.outputs, LargeTile::kOutputs) >=
                          kEnoughBlocks)
                        launch(LargeTile{});
                      else
                        launch(SmallTile{});
                    });
}

void skinny_input_gradient(const SkinnyGemm& shape, const void* output_gradient, const void* weight,
                           void* input_gradient, cudaStream_t stream) {
  check_counts(shape);
  if (shape.rows * shape.features == 0) return;
  with_channel_pack(shape.type, shape.features, aligned_for_vectors(weight, input_gradient),
                    [&]<typename Stored, int kPack>(Stored, std::integral_constant<int, kPack>) {
                      const unsigned columns = blocks_for(shape.features, kGradientThreads * kPack);
                      const auto launch = [&]<int kRows>(std::integral_constant<int, kRows>) {
                        launch_overlapped("skinny_input_gradient",
                                          input_gradient_kernel<Stored, kPack, kRows>,
                                          {.grid = {blocks_for(shape.rows, kRows), columns},
                                           .threads = unsigned(kGradientThreads)},
                                          stream, shape, output_gradient, weight, input_gradient);
                      };
                      if (blocks_for(shape.rows, kLargeGradientRows) * columns >= kEnoughBlocks)
                        launch(std::integral_constant<int, kLargeGradientRows>{});
                      else
                        launch(std::integral_constant<int, kSmallGradientRows>{});
                    });
}

}  // namespace triaccel::kernels::cuda
