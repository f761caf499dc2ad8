#include "triaccel/int8/training/step_memory.h"

#include <algorithm>

#include "triaccel/int8/layers/forward_pass.h"
#include "triaccel/int8/layers/sums.h"

namespace triaccel::int8 {
namespace {

/// Consecutive buffers; without memory it only counts them.
struct KeptBuffers {
  std::int8_t* begin = nullptr;
  std::int64_t used = 0;

  template <typename T>
  T* take(std::int64_t count) {
    std::int8_t* at = begin == nullptr ? nullptr : begin + used;
    used += arena_bytes(count * static_cast<std::int64_t>(sizeof(T)));
    return reinterpret_cast<T*>(at);
  }
};

Kept lay_out_kept(const Network& network, const Batch& batch, std::int32_t boundary,
                  KeptBuffers& early, KeptBuffers& late) {
  Kept kept;
  if (boundary == network.layer_count()) return kept;
  const std::int64_t samples = batch.size;
  kept.first_input = batch.inputs;
  for (std::int32_t l = boundary; l < network.layer_count(); ++l) {
    const Layer& layer = network.layers[static_cast<std::size_t>(l)];
    KeptBuffers& buffers = l <= network.feature_layers() ? early : late;
    kept.exponents[l] = buffers.take<std::int32_t>(samples);
    if (choice_bytes(layer) > 0)
      kept.choices[l] = buffers.take<std::uint8_t>(samples * choice_bytes(layer));
    if (l > 0) kept.inputs[l] = buffers.take<std::int8_t>(samples * layer.inputs());
  }
  kept.errors = late.take<std::int8_t>(samples * network.classes());
  return kept;
}

struct StepPlanBytes {
  KeptPlan kept = {};
  std::int64_t forward = 0;  // peak, with the rows of the linear layers
  std::int64_t backward = 0;
};

StepPlanBytes plan_step(const Network& network, std::int32_t batch_size,
                        const StepOptions& options) {
  const std::int32_t boundary = boundary_of(network, options);
  const Batch batch = {.size = batch_size};
  const Forward job = forward_job(network, batch, options, streams_of(network, options));
  const ForwardMemory forward = forward_memory(network, job);
  StepPlanBytes plan = {.forward = forward.peak_bytes()};
  if (options.bp_layers == 0) return plan;
  plan.backward = backward_memory(network, backward_job(network, batch_size, options)).peak_bytes();
  KeptBuffers early, late;
  lay_out_kept(network, batch, boundary, early, late);
  KeptPlan& kept = plan.kept;
  kept = {.early = early.used, .late = late.used, .rows = arena_bytes(forward.rows)};
  for (std::int32_t l = std::max(boundary, network.feature_layers() + 1); l < network.layer_count();
       ++l) {
    const std::int64_t depth = padded_depth(network.layers[static_cast<std::size_t>(l)].depth());
    kept.rows_in_use =
        std::max(kept.rows_in_use, arena_bytes(job.streams.count * batch_size * depth));
  }
  const std::int64_t apart = kept.late + std::max(plan.forward, plan.backward);
  const std::int64_t in_rows = std::max(plan.forward, kept.rows + plan.backward);
  kept.late_in_rows = micro_batch_of(job) == batch_size &&
                      kept.rows_in_use + kept.late <= kept.rows && in_rows < apart;
  return plan;
}

}  // namespace

std::int32_t boundary_of(const Network& network, const StepOptions& options) {
  return network.layer_count() - options.bp_layers;
}

std::int32_t perturbed_of(const Network& network, const StepOptions& options) {
  if (options.head == Head::Frozen) return 0;
  return std::min(options.zo_layers, boundary_of(network, options));
}

Streams streams_of(const Network& network, const StepOptions& options) {
  const bool tail = options.bp_layers > 0;
  if (perturbed_of(network, options) == 0)
    return {.count = 1, .signs = {0, 0, 0}, .backprop = tail ? 0 : -1};
  const bool clean = tail && options.backprop_pass == BackpropPass::Clean;
  return {.count = clean ? 3 : 2, .signs = {1, -1, 0}, .backprop = !tail ? -1 : clean ? 2 : 1};
}

Forward forward_job(const Network& network, const Batch& batch, const StepOptions& options,
                    const Streams& streams) {
  return {.batch = batch,
          .streams = streams,
          .boundary = boundary_of(network, options),
          .perturbed = perturbed_of(network, options),
          .noise = make_noise(options.noise),
          .shared_shifts = options.shared_shifts,
          .exponents = options.exponents,
          .micro_batch = options.micro_batch,
          .threads = options.threads};
}

Backward backward_job(const Network& network, std::int32_t batch_size, const StepOptions& options) {
  return {.boundary = boundary_of(network, options),
          .samples = batch_size,
          .gradient_bits = options.gradient_bits,
          .rounding = options.rounding,
          .exponents = options.exponents,
          .threads = options.threads};
}

Kept take_kept(const Network& network, const Batch& batch, std::int32_t boundary,
               const KeptPlan& plan, Arena& arena, std::int8_t*& rows) {
  KeptBuffers early, late;
  early.begin = arena.take<std::int8_t>(plan.early);
  if (plan.late_in_rows) {
    rows = arena.take<std::int8_t>(plan.rows);
    late.begin = rows + plan.rows_in_use;
  } else {
    late.begin = arena.take<std::int8_t>(plan.late);
  }
  return lay_out_kept(network, batch, boundary, early, late);
}

KeptPlan kept_plan(const Network& network, std::int32_t batch_size, const StepOptions& options) {
  return plan_step(network, batch_size, options).kept;
}

StepMemory step_memory(const Network& network, std::int32_t batch_size,
                       const StepOptions& options) {
  const StepPlanBytes plan = plan_step(network, batch_size, options);
  return {.weights = network.weight_bytes,
          .kept = plan.kept.bytes(),
          .forward = plan.forward - (plan.kept.late_in_rows ? plan.kept.rows : 0),
          .backward = plan.backward};
}

StepMemory evaluation_memory(const Network& network, std::int32_t batch_size,
                             const StepOptions& options) {
  const Forward forward = forward_job(network, {.size = batch_size}, options, {});
  return {.weights = network.weight_bytes,
          .forward = forward_memory(network, forward).peak_bytes()};
}

std::int64_t paper_bytes(const Network& network, std::int32_t batch_size, std::int32_t bp_layers) {
  std::int64_t bytes = 0;
  for (std::int32_t l = 0; l < network.layer_count(); ++l) {
    const Layer& layer = network.layers[static_cast<std::size_t>(l)];
    const std::int64_t raw = std::int64_t{layer.positions()} * layer.out_channels;
    std::int64_t buffers = raw;
    if (layer.relu) buffers += raw;
    if (layer.pooling != Pooling::None) buffers += layer.outputs();
    bytes += layer.weight_count() + batch_size * (buffers + 4 * raw);
    if (l >= network.layer_count() - bp_layers)
      bytes += 5 * layer.weight_count() + batch_size * buffers;
  }
  return bytes;
}

}  // namespace triaccel::int8
