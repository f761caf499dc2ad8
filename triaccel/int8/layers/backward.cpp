#include "triaccel/int8/layers/backward.h"

#include <algorithm>
#include <cstring>

#include "triaccel/int8/fixed_point.h"
#include "triaccel/int8/layers/sums.h"
#include "triaccel/int8/training/cross_entropy.h"

namespace triaccel::int8 {
namespace {

/// Gradients up to this size are computed once and stored; larger ones are computed twice, row by
/// row: for their maximum and for the update.
constexpr std::int64_t kHeldGradientBytes = 65536;

std::int64_t gradient_rows(const Layer& layer, std::int32_t workers) {
  const bool held = 4 * layer.weight_count() <= kHeldGradientBytes;
  return held ? layer.out_channels : workers;
}

/// State of one layer's backward pass.
struct LayerTurn {
  State& state;
  const Backward& job;
  const Layer& layer;
  std::int32_t l = 0;
  std::int8_t* errors = nullptr;            // [sample][outputs]
  std::int32_t* error_exponents = nullptr;  // [sample]

  SampleError sample(std::int32_t b) const {
    const std::int8_t* inputs = l == 0 ? job.kept.first_input : job.kept.inputs[l];
    return {.error = errors + std::int64_t{b} * layer.outputs(),
            .input = inputs + std::int64_t{b} * layer.inputs(),
            .choices = job.kept.choices[l] == nullptr
                           ? nullptr
                           : job.kept.choices[l] + b * choice_bytes(layer)};
  }
  const std::int8_t* weights() const {
    return state.weights.data() + state.network.offsets[static_cast<std::size_t>(l)];
  }
};

/// The error of the layer's input, i.e. of the previous layer after its ReLU.
void pass_error_on(const LayerTurn& turn, const BackwardMemory& memory, Arena& arena,
                   std::int8_t* to, std::int32_t* to_exponents) {
  const ArenaScope scope(arena);
  const Layer& layer = turn.layer;
  const bool relu = turn.state.network.layers[static_cast<std::size_t>(turn.l) - 1].relu;
  const std::int32_t weight_exponent = turn.state.exponents[static_cast<std::size_t>(turn.l)];
  std::int32_t* sums[kMostWorkers];
  for (std::int32_t worker = 0; worker < memory.workers; ++worker)
    sums[worker] = arena.take<std::int32_t>(memory.input_sums);
  auto* largest = arena.take<std::uint32_t>(memory.largest);
  const auto finish = [&](std::int32_t b, std::int32_t shift, const std::int32_t* input_sums) {
    const SampleError sample = turn.sample(b);
    std::int8_t* error = to + std::int64_t{b} * layer.inputs();
    requantise_sums(input_sums, layer.inputs(), shift, false, error);
    if (relu) {
      for (std::int32_t i = 0; i < layer.inputs(); ++i)
        error[i] = sample.input[i] > 0 ? error[i] : std::int8_t{0};
    }
    to_exponents[b] = turn.error_exponents[b] + weight_exponent + shift;
  };
  if (turn.job.exponents == Exponents::PerSample) {
    for_each_item(turn.job.threads, turn.job.samples, [&](std::int32_t b, std::int32_t worker) {
      input_error_sums(layer, turn.weights(), turn.sample(b), sums[worker]);
      finish(b, requant_shift(largest_magnitude(sums[worker], layer.inputs())), sums[worker]);
    });
    return;
  }
  for_each_item(turn.job.threads, turn.job.samples, [&](std::int32_t b, std::int32_t worker) {
    input_error_sums(layer, turn.weights(), turn.sample(b), sums[worker]);
    largest[b] = largest_magnitude(sums[worker], layer.inputs());
  });
  const std::int32_t shift = requant_shift(*std::max_element(largest, largest + turn.job.samples));
  for_each_item(turn.job.threads, turn.job.samples, [&](std::int32_t b, std::int32_t worker) {
    input_error_sums(layer, turn.weights(), turn.sample(b), sums[worker]);
    finish(b, shift, sums[worker]);
  });
}

/// Rescales the errors to the largest exponent of error · input over all samples, so that the
/// products can be summed.
void align_errors(const LayerTurn& turn) {
  const std::int64_t outputs = turn.layer.outputs();
  const auto exponent_of = [&](std::int32_t b) {
    return turn.error_exponents[b] + turn.job.kept.exponents[turn.l][b];
  };
  bool any = false;
  std::int32_t common = 0;
  for (std::int32_t b = 0; b < turn.job.samples; ++b) {
    const std::int8_t* error = turn.errors + b * outputs;
    if (std::all_of(error, error + outputs, [](std::int8_t e) { return e == 0; })) continue;
    common = any ? std::max(common, exponent_of(b)) : exponent_of(b);
    any = true;
  }
  for (std::int32_t b = 0; b < turn.job.samples; ++b) {
    const std::int32_t drop = std::clamp(common - exponent_of(b), 0, 31);
    if (drop == 0) continue;
    std::int8_t* error = turn.errors + b * outputs;
    for (std::int64_t i = 0; i < outputs; ++i)
      error[i] = static_cast<std::int8_t>(round_nearest(error[i], drop));
  }
}

void sum_gradient_row(const LayerTurn& turn, std::int32_t channel, std::int32_t* row) {
  const Layer& layer = turn.layer;
  std::memset(row, 0, static_cast<std::size_t>(layer.depth()) * sizeof(std::int32_t));
  if (layer.kind != LayerKind::Linear) {
    for (std::int32_t b = 0; b < turn.job.samples; ++b)
      add_gradient_row(layer, channel, turn.sample(b), row);
    return;
  }
  std::int32_t pending = -1;  // process samples in pairs: half the passes over the row
  for (std::int32_t b = 0; b < turn.job.samples; ++b) {
    const SampleError sample = turn.sample(b);
    if (sample.error[channel] == 0) continue;
    if (pending < 0) {
      pending = b;
      continue;
    }
    const SampleError before = turn.sample(pending);
    add_two_scaled(before.input, before.error[channel], sample.input, sample.error[channel],
                   layer.depth(), row);
    pending = -1;
  }
  if (pending >= 0) add_gradient_row(layer, channel, turn.sample(pending), row);
}

void update_by_gradient(const LayerTurn& turn, const BackwardMemory& memory, Arena& arena) {
  const ArenaScope scope(arena);
  const Layer& layer = turn.layer;
  const std::int64_t depth = layer.depth();
  const bool held = gradient_rows(layer, memory.workers) == layer.out_channels;
  auto* gradient = arena.take<std::int32_t>(memory.gradient);
  auto* largest = arena.take<std::uint32_t>(memory.row_largest);
  const auto row_of = [&](std::int32_t channel, std::int32_t worker) {
    return gradient + (held ? channel : worker) * depth;
  };
  for_each_item(turn.job.threads, layer.out_channels,
                [&](std::int32_t channel, std::int32_t worker) {
                  std::int32_t* row = row_of(channel, worker);
                  sum_gradient_row(turn, channel, row);
                  largest[channel] = largest_magnitude(row, depth);
                });
  const std::uint32_t most = *std::max_element(largest, largest + layer.out_channels);
  if (most == 0) return;
  const std::int32_t shift = std::max(0, bit_length(most) - turn.job.gradient_bits);
  const std::int64_t offset = turn.state.network.offsets[static_cast<std::size_t>(turn.l)];
  for_each_item(turn.job.threads, layer.out_channels,
                [&](std::int32_t channel, std::int32_t worker) {
                  std::int32_t* row = row_of(channel, worker);
                  if (!held) sum_gradient_row(turn, channel, row);
                  apply_gradient(turn.state, offset + channel * depth, depth, row, shift,
                                 turn.job.rounding, turn.job.rounding_key);
                });
}

}  // namespace

std::int32_t most_backward_samples(const Network& network, std::int32_t boundary) {
  std::int32_t most = kMostDepth;
  for (std::int32_t l = boundary; l < network.layer_count(); ++l)
    most =
        std::min(most, kMostDepth / network.layers[static_cast<std::size_t>(l)].pooled_positions());
  return most;
}

std::int64_t BackwardMemory::peak_bytes() const {
  const std::int64_t passing = workers * arena_bytes(4 * input_sums) + arena_bytes(4 * largest);
  const std::int64_t updating = arena_bytes(4 * gradient) + arena_bytes(4 * row_largest);
  return arena_bytes(errors[0]) + arena_bytes(errors[1]) + 2 * arena_bytes(4 * exponents) +
         std::max(passing, updating);
}

BackwardMemory backward_memory(const Network& network, const Backward& job) {
  BackwardMemory memory;
  memory.workers = job.threads.count;
  memory.exponents = job.samples;
  const std::int32_t last = network.layer_count() - 1;
  for (std::int32_t l = last; l >= job.boundary; --l) {
    const Layer& layer = network.layers[static_cast<std::size_t>(l)];
    memory.gradient =
        std::max(memory.gradient, gradient_rows(layer, memory.workers) * layer.depth());
    memory.row_largest = std::max<std::int64_t>(memory.row_largest, layer.out_channels);
    if (l == job.boundary) continue;
    std::int64_t& errors = memory.errors[(last - l) % 2];
    errors = std::max(errors, std::int64_t{job.samples} * layer.inputs());
    memory.input_sums = std::max<std::int64_t>(memory.input_sums, layer.inputs());
    if (job.exponents == Exponents::PerTensor) memory.largest = job.samples;
  }
  return memory;
}

void run_backward(State& state, const Backward& job, Arena& arena) {
  const ArenaScope scope(arena);
  const BackwardMemory memory = backward_memory(state.network, job);
  std::int8_t* spare[2] = {arena.take<std::int8_t>(memory.errors[0]),
                           arena.take<std::int8_t>(memory.errors[1])};
  std::int32_t* exponents[2] = {arena.take<std::int32_t>(memory.exponents),
                                arena.take<std::int32_t>(memory.exponents)};
  const std::int32_t last = state.network.layer_count() - 1;
  std::int8_t* errors = job.kept.errors;
  std::int32_t* error_exponents = exponents[1];
  std::fill_n(error_exponents, job.samples, kLossErrorExponent);
  for (std::int32_t l = last; l >= job.boundary; --l) {
    const LayerTurn turn = {.state = state,
                            .job = job,
                            .layer = state.network.layers[static_cast<std::size_t>(l)],
                            .l = l,
                            .errors = errors,
                            .error_exponents = error_exponents};
    std::int8_t* next = spare[(last - l) % 2];
    std::int32_t* next_exponents = exponents[(last - l) % 2];
    if (l > job.boundary) pass_error_on(turn, memory, arena, next, next_exponents);
    align_errors(turn);
    update_by_gradient(turn, memory, arena);
    errors = next;
    error_exponents = next_exponents;
  }
}

}  // namespace triaccel::int8
