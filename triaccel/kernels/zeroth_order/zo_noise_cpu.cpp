#include <bit>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/chunk_loop_cpu.h"
#include "triaccel/kernels/zeroth_order/zo_estimate.h"
#include "triaccel/kernels/zeroth_order/zo_noise.h"
#include "triaccel/kernels/zeroth_order/zo_noise_math.h"

namespace triaccel::kernels::cpu {
namespace {

constexpr std::int16_t kTable[1 << kZoTableBits] = {
#include "triaccel/kernels/zeroth_order/zo_normal_table.inc"
};

/// Philox for neighbouring groups side by side; the words of a group lie one behind the other.
TRIACCEL_WIDE_VECTORS
void draw_groups(std::uint64_t seed, std::int64_t step, std::int32_t direction, std::int64_t first,
                 std::int64_t groups, std::uint32_t* __restrict words) {
#pragma omp simd
  for (std::int64_t group = 0; group < groups; ++group) {
    const RandomWords drawn = zo_words(seed, step, direction, first + group);
    for (int i = 0; i < 4; ++i) words[4 * group + i] = drawn.words[i];
  }
}

TRIACCEL_WIDE_VECTORS
void add_steps(const std::uint16_t* __restrict bits, std::int64_t count, ZoFactor factor,
               std::int32_t sign, std::int32_t* __restrict sums) {
  const ZoFactor f = factor;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) sums[i] += sign * zo_steps(bits[i], kTable, f);
}

TRIACCEL_WIDE_VECTORS
void apply(float* __restrict weights, const std::int32_t* __restrict shift,
           const std::int32_t* __restrict update, std::int64_t count, bool updates,
           float grid_step) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i)
    weights[i] = zo_moved(weights[i], shift[i], update[i], updates, grid_step);
}

/// The bits of a chunk's elements in the order of memory.
void draw(std::uint64_t seed, const ZoTerm& term, const ZoTensor& tensor, const ChunkRange& range,
          std::uint32_t* words) {
  static_assert(std::endian::native == std::endian::little, "the low half of a word comes first");
  if (tensor.inner_rows == 0) {
    const std::int64_t groups = divide_up(range.end - range.begin, kZoGroup);
    draw_groups(seed, term.step, term.direction, (tensor.first + range.begin) / kZoGroup, groups,
                words);
    return;
  }
  auto* bits = reinterpret_cast<std::uint16_t*>(words);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const std::int64_t number = tensor.first + zo_number(tensor, i);
    const RandomWords drawn = zo_words(seed, term.step, term.direction, number / kZoGroup);
    bits[i - range.begin] =
        static_cast<std::uint16_t>(zo_bits(drawn, static_cast<int>(number % kZoGroup)));
  }
}

}  // namespace

void zo_move(std::span<const TensorEntry> tensors, const ZoMove& move) {
  for_each_chunk(tensors, [&](const TensorList& list, ChunkRange range, std::int64_t) {
    const auto& tensor = *static_cast<const ZoTensor*>(list.gradient[range.index]);
    const std::int64_t count = range.end - range.begin;
    alignas(64) std::uint32_t words[kChunk / 2];
    alignas(64) std::int32_t shift[kChunk] = {};
    alignas(64) std::int32_t update[kChunk] = {};
    const auto add = [&](const ZoTerm& term, std::int32_t* sums) {
      if (term.sign == 0 || term.factor.multiplier == 0) return;
      draw(move.board->seed, term, tensor, range, words);
      add_steps(reinterpret_cast<const std::uint16_t*>(words), count, term.factor, term.sign, sums);
    };
    add(zo_shift_term(move, tensor), shift);
    const bool updates = zo_updates(move);
    if (updates) {
      float weight = 1;
      for (std::int32_t back = 0; back < move.memory; ++back, weight *= move.momentum)
        for (std::int32_t d = 0; d < move.directions; ++d)
          add(zo_update_term(move, tensor, list.layer[range.index], back, d, weight), update);
    }
    apply(list.parameter[range.index] + range.begin, shift, update, count, updates,
          zo_grid_step(tensor.exponent));
  });
}

void zo_estimate(const ZoEstimate& estimate) {
  double sums[2 * kZoMostDirections] = {};
  const PartialScore* part = estimate.losses.parts;
  for (std::int32_t k = 0; k < zo_evaluations(estimate.rule); ++k)
    for (std::int64_t i = 0; i < estimate.losses.parts_of_evaluation; ++i)
      sums[k] += (part++)->loss;
  zo_finish(estimate, sums);
}

void zo_close(const ZoEstimate& estimate, const StepControl* control) {
  zo_close_step(estimate, control);
}

}  // namespace triaccel::kernels::cpu
