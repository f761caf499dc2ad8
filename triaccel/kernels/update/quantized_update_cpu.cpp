#include "triaccel/kernels/update/quantized_update.h"

#include <algorithm>

#include "triaccel/kernels/common/chunk_loop_cpu.h"
#include "triaccel/kernels/update/quantized_update_math.h"
#include "triaccel/kernels/update/state_codec_block.h"
#include "triaccel/kernels/update/update_gate.h"

namespace triaccel::kernels::cpu {
namespace {

template <typename Rule>
void quantized_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                      typename Rule::Step step, const StateNoise& noise) {
  const std::int64_t number = step_number(inputs);
  const typename Rule::Factors factors = Rule::factors(step, number);
  const StateDither dither(noise);
  for_each_chunk(tensors, [&](const TensorList& list, ChunkRange range, std::int64_t) {
    const std::int32_t layer = list.layer[range.index];
    if (is_skipped(inputs, layer)) return;
    const std::int64_t count = list.count[range.index];
    float* __restrict p = list.parameter[range.index] + range.begin;
    const StateCodes first(list.state1[range.index], count, range);
    const StateCodes second(Rule::kHasSecond ? list.state2[range.index] : list.state1[range.index],
                            count, range);
    const FloatType type = list.gradient_type[range.index];
    const float multiplier = gradient_multiplier(inputs, layer, type);
    const float learning_rate = inputs.learning_rates[layer];
    const typename Rule::Factors f = factors;
    with_stored_type(type, [&]<typename Stored>(Stored) {
      const auto* __restrict g =
          static_cast<const typename Stored::Word*>(list.gradient[range.index]) + range.begin;
      for (std::int64_t at = 0; at < range.end - range.begin; at += kStateBlock) {
        const std::int64_t block = at / kStateBlock;
        const std::int64_t here = std::min(kStateBlock, range.end - range.begin - at);
        float m[kStateBlock], v[kStateBlock] = {};
        read_state_block<Moment::First>(first.codes + at, first.exponents[block], m);
        if constexpr (Rule::kHasSecond)
          read_state_block<Moment::Second>(second.codes + at, second.exponents[block], v);
#pragma omp simd
        for (std::int64_t i = 0; i < here; ++i)
          Rule::apply(p[at + i], m[i], v[i], multiplier * Stored::value(g[at + i]), learning_rate,
                      f);
        std::uint32_t words[kStateBlock];
        draw_state_words(dither.draws, first.codes - dither.origin + at, number, words);
        first.exponents[block] = write_state_block<Moment::First>(m, words, first.codes + at);
        if constexpr (Rule::kHasSecond)
          second.exponents[block] = write_state_block<Moment::Second>(v, words, second.codes + at);
      }
    });
  });
}

}  // namespace

void quantized_sgd_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                          SgdStep step, const StateNoise& noise) {
  quantized_update<SgdRule>(tensors, inputs, step, noise);
}

void quantized_adamw_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                            AdamWStep step, const StateNoise& noise) {
  quantized_update<AdamWRule>(tensors, inputs, step, noise);
}

}  // namespace triaccel::kernels::cpu
