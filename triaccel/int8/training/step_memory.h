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
  std::int64_t kept = 0;      // held during the whole step, see KeptPlan
  std::int64_t forward = 0;   // peak of the rest
  std::int64_t backward = 0;  // peak; shares memory with the forward pass

  std::int64_t arena() const { return kept + (forward > backward ? forward : backward); }
  std::int64_t total() const { return weights + arena(); }
};

StepMemory step_memory(const Network& network, std::int32_t batch_size, const StepOptions& options);
StepMemory evaluation_memory(const Network& network, std::int32_t batch_size,
                             const StepOptions& options);

/// First layer trained with backpropagation.
std::int32_t boundary_of(const Network& network, const StepOptions& options);

/// Number of first layers a step perturbs.
std::int32_t perturbed_of(const Network& network, const StepOptions& options);

/// The passes a step runs.
Streams streams_of(const Network& network, const StepOptions& options);

/// Forward and backward jobs of a step, as determined by shapes and options.
Forward forward_job(const Network& network, const Batch& batch, const StepOptions& options,
                    const Streams& streams);
Backward backward_job(const Network& network, std::int32_t batch_size, const StepOptions& options);

/// Where data saved for backpropagation is stored, in bytes. The first linear layer is the widest
/// in most networks: in a step of one micro-batch, the end of its input rows is free afterwards,
/// and data of later layers goes there if that lowers the peak.
struct KeptPlan {
  std::int64_t early = 0;        // of the layers up to the first linear one: memory of its own
  std::int64_t late = 0;         // of the layers after it, and errors of the logits
  bool late_in_rows = false;     // otherwise memory of its own as well
  std::int64_t rows = 0;         // of all linear inputs
  std::int64_t rows_in_use = 0;  // by the layers whose data is late

  std::int64_t bytes() const { return early + (late_in_rows ? rows : late); }
};

KeptPlan kept_plan(const Network& network, std::int32_t batch_size, const StepOptions& options);

/// The buffers of `plan`, and `rows` if they are part of it.
Kept take_kept(const Network& network, const Batch& batch, std::int32_t boundary,
               const KeptPlan& plan, Arena& arena, std::int8_t*& rows);

/// The paper's accounting (every buffer of a step once, int32 sums of all samples, int32
/// gradients), for comparison with its figures.
std::int64_t paper_bytes(const Network& network, std::int32_t batch_size, std::int32_t bp_layers);

}  // namespace triaccel::int8
