#include <algorithm>

#include "triaccel/base/divide_up.h"
#include "triaccel/int8/layers/forward_pass.h"
#include "triaccel/int8/layers/patches.h"
#include "triaccel/int8/layers/sums.h"
#include "triaccel/int8/network.h"

namespace triaccel::int8 {
namespace {

constexpr std::int32_t kMostStreams = 3;

/// Scratch of one worker.
struct Bench {
  std::int8_t* input = nullptr;
  std::int8_t* activations[kMostStreams] = {};
  std::int32_t* sums = nullptr;
  SumScratch scratch = {};
};

struct Features {
  const Forward& job;
  const MicroBatch& micro;
  const std::int8_t* panels[kMostLayers][kMostStreams] = {};
  std::int32_t count = 0;

  const Layer& layer(std::int32_t l) const {
    return job.state->network.layers[static_cast<std::size_t>(l)];
  }
  /// Output buffer of layer l for a sample.
  std::int8_t* output(std::int32_t l, std::int32_t stream, std::int32_t slot,
                      std::int8_t* activations) const {
    if (l + 1 < count) return activations;
    const std::int64_t row = std::int64_t{stream} * micro.count + slot;
    return micro.rows + row * padded_depth(layer(count).depth());
  }
};

/// Packs the weights of every feature layer, perturbed or not.
void pack_panels(const Forward& job, std::int8_t* to, Features& features) {
  const State& state = *job.state;
  for (std::int32_t l = 0; l < features.count; ++l) {
    const Layer& layer = features.layer(l);
    const std::int32_t panels = panel_count(job, l);
    const std::int32_t depth = padded_depth(layer.depth());
    const std::int64_t size = std::int64_t{layer.out_channels} * depth;
    for (std::int32_t s = 0; s < job.streams.count; ++s)
      features.panels[l][s] = to + (panels == 1 ? 0 : s * size);
    const std::int64_t offset = state.network.offsets[static_cast<std::size_t>(l)];
    const std::int32_t blocks = divide_up(layer.out_channels, kPanelRows);
    for_each_item(job.threads, blocks, [&](std::int32_t block, std::int32_t) {
      const std::int64_t row = std::int64_t{block} * kPanelRows;
      const std::int64_t index = offset + row * layer.depth();
      const WeightRows from = {.weights = state.weights.data() + index,
                               .index = index,
                               .rows = static_cast<std::int32_t>(
                                   std::min<std::int64_t>(kPanelRows, layer.out_channels - row)),
                               .depth = layer.depth()};
      std::int8_t* block_to = to + row * depth;
      if (panels == 1) {
        pack_rows(from, block_to);
        return;
      }
      pack_perturbed_rows(from, job.noise_key, job.noise, block_to, block_to + size);
      if (panels == 3) pack_rows(from, block_to + 2 * size);
    });
    to += panels * size;
  }
}

void keep_input(const Forward& job, const Layer& layer, std::int32_t l, std::int32_t stream,
                std::int32_t sample, const std::int8_t* placed, std::int32_t exponent) {
  if (stream != job.streams.backprop || !keeps(job, l)) return;
  job.kept.exponents[l][sample] = exponent;
  if (l > 0)
    compact_input(input_placement(layer), placed,
                  job.kept.inputs[l] + std::int64_t{sample} * layer.inputs());
}

SumTarget target_of(const Features& features, std::int32_t l, std::int32_t stream,
                    std::int32_t sample, std::int32_t* sums) {
  const Forward& job = features.job;
  const bool chosen = stream == job.streams.backprop && keeps(job, l);
  const std::int64_t bytes = choice_bytes(features.layer(l));
  return {.panel = features.panels[l][stream],
          .sums = sums,
          .choices = chosen && bytes > 0 ? job.kept.choices[l] + sample * bytes : nullptr};
}

/// Processes one sample through all feature layers, with its own exponents.
void run_sample(const Features& features, std::int32_t slot, const Bench& bench) {
  const Forward& job = features.job;
  const std::int32_t sample = features.micro.first + slot;
  const std::int32_t streams = job.streams.count;
  const Layer& first = features.layer(0);
  place_input(input_placement(first), job.batch.inputs + std::int64_t{sample} * first.inputs(),
              bench.input);
  std::int32_t exponents[kMostStreams] = {job.batch.exponent, job.batch.exponent,
                                          job.batch.exponent};
  for (std::int32_t l = 0; l < features.count; ++l) {
    const Layer& layer = features.layer(l);
    const InputPlacement next = input_placement(features.layer(l + 1));
    SumTarget targets[kMostStreams];
    for (std::int32_t s = 0; s < streams; ++s) {
      keep_input(job, layer, l, s, sample, bench.activations[s], exponents[s]);
      // All streams share the first layer's input; later each has its own input and sums.
      targets[s] = target_of(features, l, s, sample,
                             bench.sums + (l == 0 ? std::int64_t{s} * layer.outputs() : 0));
    }
    if (l == 0) feature_sums(layer, job.product, bench.input, targets, streams, bench.scratch);
    std::int32_t plus_shift = 0;
    for (std::int32_t s = 0; s < streams; ++s) {
      if (l > 0)
        feature_sums(layer, job.product, bench.activations[s], targets + s, 1, bench.scratch);
      const std::int32_t shift = stream_shift(job, s, targets[s].largest, plus_shift);
      if (s == 0) plus_shift = shift;
      exponents[s] += job.state->exponents[static_cast<std::size_t>(l)] + shift;
      requantise_input(next, targets[s].sums, shift, layer.relu,
                       features.output(l, s, slot, bench.activations[s]));
    }
  }
  for (std::int32_t s = 0; s < streams; ++s)
    features.micro.exponents[s * features.micro.count + slot] = exponents[s];
}

/// Processes all samples layer by layer, with one exponent per stream.
void run_per_tensor(const Features& features, const ForwardMemory& memory, const Bench* benches,
                    Arena& arena) {
  const Forward& job = features.job;
  const std::int32_t samples = features.micro.count;
  auto* activations = arena.take<std::int8_t>(memory.activations);
  auto* sums = arena.take<std::int32_t>(memory.feature_sums);
  auto* largest = arena.take<std::uint32_t>(memory.feature_largest);
  const std::int64_t stride = memory.activations / (std::int64_t{job.streams.count} * samples);
  std::int32_t exponents[kMostStreams] = {job.batch.exponent, job.batch.exponent,
                                          job.batch.exponent};
  for (std::int32_t l = 0; l < features.count; ++l) {
    const Layer& layer = features.layer(l);
    const InputPlacement placement = input_placement(layer);
    const InputPlacement next = input_placement(features.layer(l + 1));
    std::int32_t plus_shift = 0;
    for (std::int32_t s = 0; s < job.streams.count; ++s) {
      std::int8_t* stream_activations = activations + s * samples * stride;
      for_each_item(job.threads, samples, [&](std::int32_t slot, std::int32_t worker) {
        const Bench& bench = benches[worker];
        const std::int8_t* input = stream_activations + slot * stride;
        if (l == 0) {
          place_input(placement, job.batch.inputs + std::int64_t{slot} * layer.inputs(),
                      bench.input);
          input = bench.input;
        }
        keep_input(job, layer, l, s, slot, input, exponents[s]);
        SumTarget target =
            target_of(features, l, s, slot, sums + std::int64_t{slot} * layer.outputs());
        feature_sums(layer, job.product, input, &target, 1, bench.scratch);
        largest[slot] = target.largest;
      });
      const std::int32_t shift =
          stream_shift(job, s, *std::max_element(largest, largest + samples), plus_shift);
      if (s == 0) plus_shift = shift;
      exponents[s] += job.state->exponents[static_cast<std::size_t>(l)] + shift;
      for_each_item(job.threads, samples, [&](std::int32_t slot, std::int32_t) {
        requantise_input(next, sums + std::int64_t{slot} * layer.outputs(), shift, layer.relu,
                         features.output(l, s, slot, stream_activations + slot * stride));
      });
    }
  }
  for (std::int32_t s = 0; s < job.streams.count; ++s)
    std::fill_n(features.micro.exponents + s * samples, samples, exponents[s]);
}

/// A network without feature layers: its inputs are the rows of the first linear layer.
void copy_inputs(const Forward& job, const MicroBatch& micro) {
  const InputPlacement placement = input_placement(job.state->network.layers.front());
  for (std::int32_t s = 0; s < job.streams.count; ++s) {
    for (std::int32_t slot = 0; slot < micro.count; ++slot) {
      const std::int32_t row = s * micro.count + slot;
      place_input(placement, job.batch.inputs + std::int64_t{micro.first + slot} * placement.run,
                  micro.rows + std::int64_t{row} * placement.bytes);
      micro.exponents[row] = job.batch.exponent;
    }
  }
}

}  // namespace

void run_features(const Forward& job, const ForwardMemory& memory, const MicroBatch& micro,
                  Arena& arena) {
  const ArenaScope scope(arena);
  Features features = {.job = job, .micro = micro};
  features.count = job.state->network.feature_layers();
  if (features.count == 0) return copy_inputs(job, micro);
  pack_panels(job, arena.take<std::int8_t>(memory.panels), features);
  const bool per_sample = job.exponents == Exponents::PerSample;
  Bench benches[kMostWorkers];
  for (std::int32_t worker = 0; worker < memory.workers; ++worker) {
    Bench& bench = benches[worker];
    bench.input = arena.take<std::int8_t>(memory.input);
    bench.scratch.patches = arena.take<std::int8_t>(memory.patches);
    bench.scratch.part_sums = arena.take<std::int32_t>(memory.part_sums);
    if (!per_sample) continue;
    auto* activations = arena.take<std::int8_t>(memory.activations);
    for (std::int32_t s = 0; s < job.streams.count; ++s)
      bench.activations[s] = activations + s * (memory.activations / job.streams.count);
    bench.sums = arena.take<std::int32_t>(memory.feature_sums);
  }
  if (!per_sample) return run_per_tensor(features, memory, benches, arena);
  for_each_item(job.threads, micro.count, [&](std::int32_t slot, std::int32_t worker) {
    run_sample(features, slot, benches[worker]);
  });
}

}  // namespace triaccel::int8
