#include "triaccel/kernels/zeroth_order/zo_noise.h"

#include "triaccel/kernels/common/chunk_loop.cuh"
#include "triaccel/kernels/zeroth_order/zo_noise_math.h"

namespace triaccel::kernels::cuda {
namespace {

constexpr int kTableSize = 1 << kZoTableBits;

alignas(16) __device__ const std::int16_t table_in_memory[kTableSize] = {
#include "triaccel/kernels/zeroth_order/zo_normal_table.inc"
};

constexpr int kGroup = static_cast<int>(kZoGroup);

/// Adds a term's steps for the eight elements of `group`.
__device__ void add_group(std::uint64_t seed, const ZoTerm& term, std::int64_t group,
                          const std::int16_t* table, std::int32_t (&sums)[kGroup]) {
  if (term.sign == 0 || term.factor.multiplier == 0) return;
  const RandomWords words = zo_words(seed, term.step, term.direction, group);
#pragma unroll
  for (int i = 0; i < kGroup; ++i)
    sums[i] += term.sign * zo_steps(zo_bits(words, i), table, term.factor);
}

/// Eight neighbours in memory whose numbers are no neighbours: a draw each.
__device__ void add_scattered(std::uint64_t seed, const ZoTerm& term, const ZoTensor& tensor,
                              std::int64_t offset, std::int64_t end, const std::int16_t* table,
                              std::int32_t (&sums)[kGroup]) {
  if (term.sign == 0 || term.factor.multiplier == 0) return;
#pragma unroll 1
  for (int i = 0; i < kGroup && offset + i < end; ++i) {
    const std::int64_t number = tensor.first + zo_number(tensor, offset + i);
    const RandomWords words = zo_words(seed, term.step, term.direction, number / kZoGroup);
    const int place = static_cast<int>(number % kZoGroup);
    // The place is not known to the compiler: picked without indexing registers.
    const std::uint32_t low = place / 2 == 0 ? words.words[0] : words.words[1];
    const std::uint32_t high = place / 2 == 2 ? words.words[2] : words.words[3];
    const std::uint32_t bits = (place < 4 ? low : high) >> (place % 2 * 16) & 0xFFFFu;
    const std::int32_t steps = term.sign * zo_steps(bits, table, term.factor);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) sums[k] += k == i ? steps : 0;
  }
}

__global__ void __launch_bounds__(kThreads)
    zo_move_kernel(const __grid_constant__ TensorList list, const __grid_constant__ ZoMove move) {
  alignas(16) __shared__ std::int16_t table[kTableSize];
  for (int i = threadIdx.x; i < kTableSize / 2; i += kThreads)
    reinterpret_cast<std::uint32_t*>(table)[i] =
        reinterpret_cast<const std::uint32_t*>(table_in_memory)[i];
  __syncthreads();
  const ChunkRange range = locate_chunk(list, static_cast<std::int32_t>(blockIdx.x));
  wait_for_previous_kernel();  // the table was never written by one
  const ZoTensor tensor = *static_cast<const ZoTensor*>(list.gradient[range.index]);
  float* weights = list.parameter[range.index];
  const std::int32_t layer = list.layer[range.index];
  const std::uint64_t seed = move.board->seed;
  const bool updates = zo_updates(move);
  const ZoTerm shift_term = zo_shift_term(move, tensor);
  const float grid_step = zo_grid_step(tensor.exponent);
  const bool aligned = aligned_for_vectors(weights);
#pragma unroll 1
  for (std::int64_t offset = range.begin + threadIdx.x * kZoGroup; offset < range.end;
       offset += kThreads * kZoGroup) {
    const std::int64_t group = (tensor.first + offset) / kZoGroup;
    const auto add = [&](const ZoTerm& term, std::int32_t(&sums)[kGroup]) {
      if (tensor.inner_rows == 0)
        add_group(seed, term, group, table, sums);
      else
        add_scattered(seed, term, tensor, offset, range.end, table, sums);
    };
    std::int32_t shift[kGroup] = {}, update[kGroup] = {};
    add(shift_term, shift);
    if (updates) {
      float weight = 1;
      for (std::int32_t back = 0; back < move.memory; ++back, weight *= move.momentum)
        for (std::int32_t d = 0; d < move.directions; ++d)
          add(zo_update_term(move, tensor, layer, back, d, weight), update);
    }
    if (aligned && offset + kZoGroup <= range.end) {
      float4 low = load4(weights + offset), high = load4(weights + offset + 4);
      low.x = zo_moved(low.x, shift[0], update[0], updates, grid_step);
      low.y = zo_moved(low.y, shift[1], update[1], updates, grid_step);
      low.z = zo_moved(low.z, shift[2], update[2], updates, grid_step);
      low.w = zo_moved(low.w, shift[3], update[3], updates, grid_step);
      high.x = zo_moved(high.x, shift[4], update[4], updates, grid_step);
      high.y = zo_moved(high.y, shift[5], update[5], updates, grid_step);
      high.z = zo_moved(high.z, shift[6], update[6], updates, grid_step);
      high.w = zo_moved(high.w, shift[7], update[7], updates, grid_step);
      store4(weights + offset, low);
      store4(weights + offset + 4, high);
    } else {
#pragma unroll
      for (int i = 0; i < kGroup; ++i)
        if (offset + i < range.end)
          weights[offset + i] =
              zo_moved(weights[offset + i], shift[i], update[i], updates, grid_step);
    }
  }
}

}  // namespace

void zo_move(std::span<const TensorEntry> tensors, const ZoMove& move, cudaStream_t stream) {
  launch_lists("zo_move", tensors, zo_move_kernel, stream, move);
}

}  // namespace triaccel::kernels::cuda
