#include "triaccel/int8/training/step_memory.h"

#include "triaccel/int8/layers/forward_pass.h"
#include "triaccel/int8/layers/sums.h"

namespace triaccel::int8 {

std::int32_t boundary_of(const Network& network, const StepOptions& options) {
  return network.layer_count() - options.bp_layers;
}

Streams streams_of(const Network& network, const StepOptions& options) {
  const bool tail = options.bp_layers > 0;
  const bool head = boundary_of(network, options) > 0 && options.head == Head::ZerothOrder;
  if (!head) return {.count = 1, .signs = {0, 0, 0}, .backprop = tail ? 0 : -1};
  const bool clean = tail && options.backprop_pass == BackpropPass::Clean;
  return {.count = clean ? 3 : 2, .signs = {1, -1, 0}, .backprop = !tail ? -1 : clean ? 2 : 1};
}

Forward forward_job(const Network& network, const Batch& batch, const StepOptions& options,
                    const Streams& streams) {
  return {.batch = batch,
          .streams = streams,
          .boundary = boundary_of(network, options),
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

std::int64_t kept_bytes(const Network& network, std::int32_t boundary, std::int32_t samples) {
  if (boundary == network.layer_count()) return 0;
  const std::int64_t count = samples;
  std::int64_t bytes = arena_bytes(count * network.classes());
  for (std::int32_t l = boundary; l < network.layer_count(); ++l) {
    const Layer& layer = network.layers[static_cast<std::size_t>(l)];
    bytes += arena_bytes(4 * count) + arena_bytes(count * choice_bytes(layer));
    if (l > 0) bytes += arena_bytes(count * layer.inputs());
  }
  return bytes;
}

StepMemory step_memory(const Network& network, std::int32_t batch_size,
                       const StepOptions& options) {
  const std::int32_t boundary = boundary_of(network, options);
  const Forward forward =
      forward_job(network, {.size = batch_size}, options, streams_of(network, options));
  StepMemory memory;
  memory.weights = network.weight_bytes;
  memory.kept = kept_bytes(network, boundary, batch_size);
  memory.forward = forward_memory(network, forward).peak_bytes();
  if (options.bp_layers > 0)
    memory.backward =
        backward_memory(network, backward_job(network, batch_size, options)).peak_bytes();
  return memory;
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
