#include "triaccel/int8/layers/forward.h"

#include <algorithm>

#include "triaccel/int8/fixed_point.h"
#include "triaccel/int8/layers/forward_memory.h"
#include "triaccel/int8/layers/forward_pass.h"

namespace triaccel::int8 {

std::int32_t stream_shift(const Forward& job, std::int32_t stream, std::uint32_t largest,
                          std::int32_t plus_shift) {
  const bool shared = job.shared_shifts && job.streams.signs[stream] < 0;
  return shared ? plus_shift : requant_shift(largest);
}

bool keeps(const Forward& job, std::int32_t layer) {
  return job.streams.backprop >= 0 && layer >= job.boundary;
}

ForwardResult run_forward(const Forward& job, Arena& arena) {
  const ForwardMemory memory = forward_memory(job.state->network, job);
  const std::int32_t together = micro_batch_of(job);
  ForwardResult result;
  for (std::int32_t first = 0; first < job.batch.size; first += together) {
    const ArenaScope scope(arena);
    const MicroBatch micro = {.first = first,
                              .count = std::min(together, job.batch.size - first),
                              .rows = arena.take<std::int8_t>(memory.rows),
                              .exponents = arena.take<std::int32_t>(memory.exponents)};
    run_features(job, memory, micro, arena);
    run_linear_layers(job, memory, micro, arena, result);
  }
  return result;
}

}  // namespace triaccel::int8
