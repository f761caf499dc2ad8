#pragma once

#include <cstdint>

#include "triaccel/int8/layers/backward.h"
#include "triaccel/int8/layers/forward.h"
#include "triaccel/int8/network.h"
#include "triaccel/int8/training/train_step.h"

namespace triaccel::int8 {

/// Bytes a step needs, computed from shapes, without the caller's batch.
struct StepMemory {
  std::int64_t weights = 0;
  std::int64_t kept = 0;      // saved for backpropagation during the whole step
  std::int64_t forward = 0;   // peak
  std::int64_t backward = 0;  // peak; shares memory with the forward pass

  std::int64_t arena() const { return kept + (forward > backward ? forward : backward); }
  std::int64_t total() const { return weights + arena(); }
};

StepMemory step_memory(const Network& network, std::int32_t batch_size, const StepOptions& options);
StepMemory evaluation_memory(const Network& network, std::int32_t batch_size,
                             const StepOptions& options);

/// First layer trained with backpropagation.
std::int32_t boundary_of(const Network& network, const StepOptions& options);

/// The passes a step runs.
Streams streams_of(const Network& network, const StepOptions& options);

/// Forward and backward jobs of a step, as determined by shapes and options.
Forward forward_job(const Network& network, const Batch& batch, const StepOptions& options,
                    const Streams& streams);
Backward backward_job(const Network& network, std::int32_t batch_size, const StepOptions& options);

/// Bytes saved for backpropagation.
std::int64_t kept_bytes(const Network& network, std::int32_t boundary, std::int32_t samples);

/// The paper's accounting (every buffer of a step once, int32 sums of all samples, int32
/// gradients), for comparison with its figures.
std::int64_t paper_bytes(const Network& network, std::int32_t batch_size, std::int32_t bp_layers);

}  // namespace triaccel::int8
