#include <algorithm>
#include <cstring>

#include "triaccel/base/divide_up.h"
#include "triaccel/int8/layers/forward_pass.h"
#include "triaccel/int8/layers/patches.h"
#include "triaccel/int8/layers/sums.h"
#include "triaccel/int8/network.h"
#include "triaccel/int8/training/cross_entropy.h"

namespace triaccel::int8 {
namespace {

struct LinearPass {
  const Forward& job;
  const MicroBatch& micro;
  std::int32_t* sums = nullptr;    // [stream][sample][out]
  std::int32_t* shifts = nullptr;  // per tensor: of each stream
  std::int8_t* panels[kMostWorkers] = {};

  std::int32_t rows() const { return job.streams.count * micro.count; }
};

/// A block of a layer's outputs for all samples and streams.
void multiply_block(const LinearPass& pass, std::int32_t l, std::int32_t block,
                    std::int8_t* panel) {
  const Forward& job = pass.job;
  const Network& network = job.state->network;
  const Layer& layer = network.layers[static_cast<std::size_t>(l)];
  const std::int32_t depth = padded_depth(layer.depth());
  const std::int32_t row = block * kPanelRows;
  const std::int32_t rows = std::min(kPanelRows, layer.out_channels - row);
  const std::int64_t index =
      network.offsets[static_cast<std::size_t>(l)] + std::int64_t{row} * layer.depth();
  const WeightRows from = {.weights = job.state->weights.data() + index,
                           .index = index,
                           .rows = rows,
                           .depth = layer.depth()};
  ProductShape shape = {
      .rows = pass.micro.count, .columns = rows, .depth = depth, .c_stride = layer.out_channels};
  const auto multiply = [&](std::int32_t stream, const std::int8_t* weights) {
    const std::int64_t first = std::int64_t{stream} * pass.micro.count;
    checked_product(job.product, shape, pass.micro.rows + first * depth, weights,
                    pass.sums + first * layer.out_channels + row);
  };
  if (panel_count(job, l) == 1) {
    shape.rows = pass.rows();
    if (depth == layer.depth())
      return multiply(0, from.weights);  // already has the layout of a panel
    pack_rows(from, panel);
    return multiply(0, panel);
  }
  const std::int64_t size = std::int64_t{kPanelRows} * depth;
  pack_perturbed_rows(from, job.noise_key, job.noise, panel, panel + size);
  if (job.streams.count == 3) pack_rows(from, panel + 2 * size);
  for (std::int32_t s = 0; s < job.streams.count; ++s) multiply(s, panel + s * size);
}

void keep_rows(const Forward& job, const MicroBatch& micro, std::int32_t l) {
  if (!keeps(job, l)) return;
  const Layer& layer = job.state->network.layers[static_cast<std::size_t>(l)];
  const std::int64_t first = std::int64_t{job.streams.backprop} * micro.count;
  for (std::int32_t slot = 0; slot < micro.count; ++slot) {
    const std::int32_t sample = micro.first + slot;
    job.kept.exponents[l][sample] = micro.exponents[first + slot];
    if (l > 0)
      std::memcpy(job.kept.inputs[l] + std::int64_t{sample} * layer.inputs(),
                  micro.rows + (first + slot) * padded_depth(layer.depth()),
                  static_cast<std::size_t>(layer.inputs()));
  }
}

void choose_tensor_shifts(const LinearPass& pass, const Layer& layer) {
  const std::int64_t count = std::int64_t{pass.micro.count} * layer.out_channels;
  for (std::int32_t s = 0; s < pass.job.streams.count; ++s)
    pass.shifts[s] =
        stream_shift(pass.job, s, largest_magnitude(pass.sums + s * count, count), pass.shifts[0]);
}

void requantise_rows(const LinearPass& pass, std::int32_t l) {
  const Forward& job = pass.job;
  const auto& layers = job.state->network.layers;
  const Layer& layer = layers[static_cast<std::size_t>(l)];
  const InputPlacement next = input_placement(layers[static_cast<std::size_t>(l) + 1]);
  const bool per_tensor = job.exponents == Exponents::PerTensor;
  if (per_tensor) choose_tensor_shifts(pass, layer);
  for_each_item(job.threads, pass.micro.count, [&](std::int32_t slot, std::int32_t) {
    std::int32_t plus_shift = 0;
    for (std::int32_t s = 0; s < job.streams.count; ++s) {
      const std::int64_t row = std::int64_t{s} * pass.micro.count + slot;
      const std::int32_t* sums = pass.sums + row * layer.out_channels;
      const std::int32_t shift =
          per_tensor
              ? pass.shifts[s]
              : stream_shift(job, s, largest_magnitude(sums, layer.out_channels), plus_shift);
      if (s == 0) plus_shift = shift;
      pass.micro.exponents[row] += job.state->exponents[static_cast<std::size_t>(l)] + shift;
      requantise_input(next, sums, shift, layer.relu, pass.micro.rows + row * next.bytes);
    }
  });
}

void take_losses(const LinearPass& pass, ForwardResult& result) {
  const Forward& job = pass.job;
  const std::int32_t classes = job.state->network.classes();
  const std::int32_t weight_exponent = job.state->exponents.back();
  for (std::int32_t s = 0; s < job.streams.count; ++s) {
    for (std::int32_t slot = 0; slot < pass.micro.count; ++slot) {
      const std::int64_t row = std::int64_t{s} * pass.micro.count + slot;
      const std::int32_t sample = pass.micro.first + slot;
      const std::int32_t* logits = pass.sums + row * classes;
      const std::int32_t exponent = pass.micro.exponents[row] + weight_exponent;
      const std::int32_t label = job.batch.labels[sample];
      const LogitSummary summary = summarise_logits(kLossTables, logits, classes, exponent);
      result.loss[s] += loss_bits(summary, logits[label], exponent);
      if (std::max_element(logits, logits + classes) - logits == label) ++result.correct[s];
      if (s == job.streams.backprop)
        loss_error(kLossTables, summary, logits, classes, exponent, label, job.error_key, sample,
                   job.kept.errors + std::int64_t{sample} * classes);
    }
  }
}

}  // namespace

void run_linear_layers(const Forward& job, const ForwardMemory& memory, const MicroBatch& micro,
                       Arena& arena, ForwardResult& result) {
  const ArenaScope scope(arena);
  LinearPass pass = {.job = job, .micro = micro};
  pass.sums = arena.take<std::int32_t>(memory.sums);
  for (std::int32_t worker = 0; worker < memory.workers; ++worker)
    pass.panels[worker] = arena.take<std::int8_t>(memory.block_panels);
  pass.shifts = arena.take<std::int32_t>(memory.shifts);
  const Network& network = job.state->network;
  for (std::int32_t l = network.feature_layers(); l < network.layer_count(); ++l) {
    keep_rows(job, micro, l);
    const std::int32_t out = network.layers[static_cast<std::size_t>(l)].out_channels;
    for_each_item(job.threads, divide_up(out, kPanelRows),
                  [&](std::int32_t block, std::int32_t worker) {
                    multiply_block(pass, l, block, pass.panels[worker]);
                  });
    if (l + 1 < network.layer_count()) requantise_rows(pass, l);
  }
  take_losses(pass, result);
}

}  // namespace triaccel::int8
