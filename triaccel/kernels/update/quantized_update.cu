#include "triaccel/kernels/update/quantized_update.h"

#include "triaccel/kernels/common/block_reduce.cuh"
#include "triaccel/kernels/common/chunk_loop.cuh"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/update/quantized_update_math.h"
#include "triaccel/kernels/update/update_gate.h"

// A warp takes a block of a state at a time, each lane four of its elements.
namespace triaccel::kernels::cuda {
namespace {

static_assert(kStateBlock == 32 * 4);

/// On a multiprocessor: enough loads under way to fill the memory's pipe.
constexpr int kBlocksAtOnce = 5;

/// What a lane reads of a state: codes of four elements and the exponent of their block.
struct FourCodes {
  __device__ FourCodes(const StateCodes& state, int i)
      : codes(*reinterpret_cast<const std::uint32_t*>(state.codes + i)),
        exponent(state.exponents[i / kStateBlock]) {}

  template <Moment moment>
  __device__ void decode(float (&values)[4]) const {
    const std::uint32_t lowest = lowest_octave<moment>(exponent);
#pragma unroll
    for (int k = 0; k < 4; ++k) values[k] = decoded_state<moment>(codes >> 8 * k & 0xffu, lowest);
  }

  std::uint32_t codes, exponent;
};

/// All lanes of the block call it.
template <Moment moment>
__device__ void write_four(const StateCodes& state, int i, const float (&values)[4],
                           const RandomWords& words) {
  std::uint32_t largest = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) largest = max(largest, bits_of_float(values[k]) & 0x7fffffffu);
  const std::uint32_t exponent = block_exponent(maximum_of_warp(largest));
  const std::uint32_t lowest = lowest_octave<moment>(exponent);
  std::uint32_t codes = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k)
    codes |= encoded_state<moment>(values[k], lowest, state_noise<moment>(words.words[k])) << 8 * k;
  *reinterpret_cast<std::uint32_t*>(state.codes + i) = codes;
  if (threadIdx.x % 32 == 0) state.exponents[i / kStateBlock] = static_cast<std::uint8_t>(exponent);
}

template <typename Rule>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    quantized_update_kernel(const __grid_constant__ TensorList list,
                            const __grid_constant__ UpdateInputs inputs, typename Rule::Step step,
                            const __grid_constant__ StateDither dither) {
  const ChunkRange range = locate_chunk(list, static_cast<std::int32_t>(blockIdx.x));
  const std::int32_t layer = list.layer[range.index];
  wait_for_previous_kernel();
  if (is_skipped(inputs, layer)) return;
  const std::int64_t number = step_number(inputs);
  // FP64 powers are dear on most chips: one thread of the block takes them for all.
  __shared__ typename Rule::Factors shared_factors;
  if (threadIdx.x == 0) shared_factors = Rule::factors(step, number);
  __syncthreads();
  const typename Rule::Factors factors = shared_factors;
  const std::int64_t count = list.count[range.index];
  float* p = list.parameter[range.index] + range.begin;
  const StateCodes first(list.state1[range.index], count, range);
  const StateCodes second(list.state2[range.index], count, range);
  const FloatType type = list.gradient_type[range.index];
  const float multiplier = gradient_multiplier(inputs, layer, type);
  const float learning_rate = inputs.learning_rates[layer];
  const int elements = static_cast<int>(range.end - range.begin);
  with_stored_type(type, [&]<typename Stored>(Stored) {
    const auto* g =
        static_cast<const typename Stored::Word*>(list.gradient[range.index]) + range.begin;
    const bool aligned = aligned_for_vectors(p, g);
    for (int i = threadIdx.x * 4; i < kChunk; i += kThreads * 4) {
      if (i / kStateBlock * kStateBlock >= elements) return;  // with all lanes of the warp
      const bool whole = aligned && i + 4 <= elements;
      // All that is read is asked for before any of it is used.
      const FourCodes first_codes(first, i), second_codes(Rule::kHasSecond ? second : first, i);
      float4 p4 = {}, g4 = {};
      if (whole) {
        p4 = load4(p + i);
        g4 = load4<Stored>(g + i);
      }
      const RandomWords words = dither.draws.words(first.codes - dither.origin + i, number);
      float m[4], v[4] = {};
      first_codes.decode<Moment::First>(m);
      if constexpr (Rule::kHasSecond) second_codes.decode<Moment::Second>(v);
      if (whole) {
        Rule::apply(p4.x, m[0], v[0], multiplier * g4.x, learning_rate, factors);
        Rule::apply(p4.y, m[1], v[1], multiplier * g4.y, learning_rate, factors);
        Rule::apply(p4.z, m[2], v[2], multiplier * g4.z, learning_rate, factors);
        Rule::apply(p4.w, m[3], v[3], multiplier * g4.w, learning_rate, factors);
        store4(p + i, p4);
      } else {
#pragma unroll
        for (int k = 0; k < 4; ++k)
          if (i + k < elements)
            Rule::apply(p[i + k], m[k], v[k], multiplier * Stored::value(g[i + k]), learning_rate,
                        factors);
      }
      write_four<Moment::First>(first, i, m, words);
      if constexpr (Rule::kHasSecond) write_four<Moment::Second>(second, i, v, words);
    }
  });
}

template <typename Rule>
void quantized_update(std::string_view who, std::span<const TensorEntry> tensors,
                      const UpdateInputs& inputs, typename Rule::Step step, const StateNoise& noise,
                      cudaStream_t stream) {
  static_assert(
      sizeof(TensorList) + sizeof(UpdateInputs) + sizeof(step) + sizeof(StateDither) <= 4096 - 16,
      "kernel arguments end at 4 KB, gaps between them included");
  const StateDither dither(noise);
  launch_lists(who, tensors, quantized_update_kernel<Rule>, stream, inputs, step, dither);
}

}  // namespace

void quantized_sgd_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                          SgdStep step, const StateNoise& noise, cudaStream_t stream) {
  quantized_update<SgdRule>("quantized_sgd_update", tensors, inputs, step, noise, stream);
}

void quantized_adamw_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                            AdamWStep step, const StateNoise& noise, cudaStream_t stream) {
  quantized_update<AdamWRule>("quantized_adamw_update", tensors, inputs, step, noise, stream);
}

}  // namespace triaccel::kernels::cuda
