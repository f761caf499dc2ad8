#pragma once

#include <cstdint>

#include "triaccel/int8/arena.h"
#include "triaccel/int8/products/product.h"
#include "triaccel/int8/threads.h"
#include "triaccel/int8/training/perturbation.h"
#include "triaccel/int8/training/state.h"

namespace triaccel::int8 {

/// Contiguous samples of Network::inputs() mantissas each (channels last).
struct Batch {
  const std::int8_t* inputs = nullptr;
  const std::int32_t* labels = nullptr;
  std::int32_t size = 0;
  std::int32_t exponent = kPixelExponent;
};

/// Granularity of exponents.
enum class Exponents {
  PerSample,  // one per sample: samples are independent
  PerTensor,  // one for the whole batch, as in NITI and ElasticZO
};

/// The concurrent passes over a batch.
struct Streams {
  std::int32_t count = 1;
  std::int32_t signs[3] = {0, 0, 0};  // of the perturbation; +1 comes before -1
  std::int32_t backprop = -1;         // whose activations are saved

  bool perturbed() const { return signs[0] != 0; }
};

/// Data saved for backpropagation; entries below the boundary are unused.
struct Kept {
  const std::int8_t* first_input = nullptr;   // of layer 0: the caller's batch
  std::int8_t* inputs[kMostLayers] = {};      // [sample][Layer::inputs()], not of layer 0
  std::int32_t* exponents[kMostLayers] = {};  // [sample]
  std::uint8_t* choices[kMostLayers] = {};    // [sample][choice_bytes(layer)]
  std::int8_t* errors = nullptr;              // of the logits, [sample][class]
};

struct Forward {
  const State* state = nullptr;
  Batch batch = {};
  Streams streams = {};
  std::int32_t boundary = 0;   // layers from it on are backpropagated
  std::int32_t perturbed = 0;  // so many first layers get noise
  std::uint64_t noise_key = 0;
  std::uint64_t error_key = 0;
  Noise noise = {};
  bool shared_shifts = true;
  Exponents exponents = Exponents::PerSample;
  std::int32_t micro_batch = 0;
  Product product = nullptr;
  Threads threads = {};
  Kept kept = {};
  std::int8_t* rows = nullptr;  // inputs of linear layers, where they outlive the passes
};

/// Sums over the batch.
struct ForwardResult {
  std::int64_t loss[3] = {0, 0, 0};  // of each stream, 2^-16 bit
  std::int32_t correct[3] = {0, 0, 0};
};

ForwardResult run_forward(const Forward& job, Arena& arena);

}  // namespace triaccel::int8
