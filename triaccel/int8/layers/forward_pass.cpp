#include "triaccel/int8/layers/forward_pass.h"

#include <algorithm>

#include "triaccel/int8/fixed_point.h"
#include "triaccel/int8/layers/patches.h"
#include "triaccel/int8/layers/sums.h"
#include "triaccel/int8/network.h"

namespace triaccel::int8 {
namespace {

template <typename T>
std::int64_t bytes_of(std::int64_t count) {
  return arena_bytes(count * static_cast<std::int64_t>(sizeof(T)));
}

}  // namespace

std::int32_t micro_batch_of(const Forward& job) {
  const bool whole = job.micro_batch <= 0 || job.exponents == Exponents::PerTensor;
  return whole ? job.batch.size : std::min(job.micro_batch, job.batch.size);
}

std::int32_t panel_count(const Forward& job, std::int32_t layer) {
  return job.streams.perturbed() && layer < job.perturbed ? job.streams.count : 1;
}

std::int64_t ForwardMemory::peak_bytes() const {
  const bool per_sample = convention == Exponents::PerSample;
  const std::int64_t a_worker = bytes_of<std::int8_t>(input) + bytes_of<std::int8_t>(patches) +
                                bytes_of<std::int32_t>(part_sums);
  const std::int64_t shared =
      bytes_of<std::int8_t>(activations) + bytes_of<std::int32_t>(feature_sums);
  const std::int64_t features = bytes_of<std::int8_t>(panels) + workers * a_worker +
                                (per_sample ? workers : 1) * shared +
                                bytes_of<std::uint32_t>(feature_largest);
  const std::int64_t linear = bytes_of<std::int32_t>(sums) +
                              workers * bytes_of<std::int8_t>(block_panels) +
                              bytes_of<std::int32_t>(shifts);
  return bytes_of<std::int8_t>(rows) + bytes_of<std::int32_t>(exponents) +
         std::max(features, linear);
}

ForwardMemory forward_memory(const Network& network, const Forward& job) {
  const std::int64_t streams = job.streams.count;
  const std::int64_t samples = micro_batch_of(job);
  const std::int32_t features = network.feature_layers();
  ForwardMemory memory;
  memory.workers = job.threads.count;
  memory.convention = job.exponents;
  memory.exponents = streams * samples;
  std::int64_t widest = 0;
  for (std::int32_t l = 0; l < features; ++l) {
    const Layer& layer = network.layers[static_cast<std::size_t>(l)];
    memory.panels +=
        std::int64_t{panel_count(job, l)} * layer.out_channels * padded_depth(layer.depth());
    memory.patches = std::max(memory.patches, patch_bytes(layer));
    memory.part_sums = std::max(memory.part_sums, part_sum_count(layer));
    const std::int64_t together = job.exponents == Exponents::PerTensor ? samples
                                  : l == 0                              ? streams
                                                                        : 1;
    memory.feature_sums = std::max(memory.feature_sums, together * layer.outputs());
    if (l > 0) widest = std::max<std::int64_t>(widest, input_placement(layer).bytes);
  }
  if (features > 0) {
    memory.input = input_placement(network.layers.front()).bytes;
    const bool per_tensor = job.exponents == Exponents::PerTensor;
    memory.activations = arena_bytes(widest) * streams * (per_tensor ? samples : 1);
    memory.feature_largest = per_tensor ? samples : 0;
  }
  for (std::int32_t l = features; l < network.layer_count(); ++l) {
    const Layer& layer = network.layers[static_cast<std::size_t>(l)];
    const std::int64_t depth = padded_depth(layer.depth());
    memory.rows = std::max(memory.rows, streams * samples * depth);
    memory.sums = std::max(memory.sums, streams * samples * layer.out_channels);
    memory.block_panels = std::max(memory.block_panels, panel_count(job, l) * kPanelRows * depth);
  }
  memory.shifts = job.exponents == Exponents::PerTensor ? streams : 0;
  return memory;
}

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
    const MicroBatch micro = {
        .first = first,
        .count = std::min(together, job.batch.size - first),
        .rows = job.rows != nullptr ? job.rows : arena.take<std::int8_t>(memory.rows),
        .exponents = arena.take<std::int32_t>(memory.exponents)};
    run_features(job, memory, micro, arena);
    run_linear_layers(job, memory, micro, arena, result);
  }
  return result;
}

}  // namespace triaccel::int8
