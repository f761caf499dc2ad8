#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "triaccel/core/step_plan.h"

namespace triaccel {

/// One way to keep what a pass saves for backward, and its costs, measured.
struct PassCost {
  ActivationFormat activations = ActivationFormat::Raw;
  double offload_share = 1;  // Offloaded: of the bytes, from the first tensor on
  bool recompute_norms = false;
  double recompute_segments = 0;  // of the bytes, from the first segment on
  bool eager = false;             // steps are not captured in CUDA graphs though they could be
  bool casts_by_layer =
      false;           // weights are rounded to 16 bits where they are used, not all at once
  bool whole = false;  // the batch in one pass; else in several, whose gradients are summed
  // Samples of a pass: more do not fit, and all that a pass takes counts as that of its samples. 0:
  // any number.
  std::int64_t largest = 0;
  double bytes = 0;             // of a step, without weights, optimizer state and data: gradients,
                                // copies of weights, workspace
  double bytes_per_sample = 0;  // of a pass
  double profile_bytes = 0;     // that measuring activations takes in place of a step
  double seconds = 0;           // of a pass of no samples
  double seconds_per_sample = 0;
};

/// A step whose passes had so many samples each.
struct PassSample {
  std::int64_t samples = 0;
  double bytes = 0;     // in use at its peak
  double overhead = 0;  // that the allocator took on top of them, whatever the size
  double seconds = 0;   // of one pass
};

/// The costs on the line through two steps, where `fixed_bytes` are no part of a step.
PassCost line_through(const PassSample& small, const PassSample& large, double fixed_bytes);

/// The costs of passes of this size, where larger ones do not fit.
PassCost only_size(const PassSample& sample, double fixed_bytes);

/// How optimizer state is kept.
enum class StateStorage {
  AsAsked,
  EightBits,
  Host,  // in host memory, in FP32
};

/// What the memory of a run is made of.
struct MemoryCosts {
  std::int64_t weights = 0;  // with buffers
  std::int64_t state = 0;    // of the optimizer, as asked for
  std::int64_t state_in_8_bits = 0;
  double state_seconds = 0;  // for an update of state in host memory
  std::int64_t data = 0;     // the data set on the device
  double data_seconds = 0;   // for a sample of a data set in host memory
  std::vector<PassCost> passes = {};
};

/// `cost` as no faster than the first of its kind, which keeps everything: what saves memory does
/// more, whatever was measured.
PassCost not_faster(PassCost cost, const std::vector<PassCost>& before);

/// What a sample takes in the fastest of these passes if there are many in it; empty: not known.
std::optional<double> least_seconds_per_sample(const std::vector<PassCost>& passes);

/// Adds passes that offload a part of their activations, whose costs lie between those of passes
/// that offload nothing and all: copies take time only where they take longer than a pass does.
void add_partial_offload(MemoryCosts& costs);

/// Adds passes that recompute a part of their activations, whose costs lie between those of passes
/// that recompute nothing and all.
void add_partial_recomputation(MemoryCosts& costs);

/// What may be chosen.
struct MemoryRequest {
  std::int64_t batch = 0;          // samples of a step
  std::int64_t asked_pass = 0;     // samples: passes as large are no loss; 0: the batch
  bool accumulated = false;        // it was asked for as several batches (--accumulate)
  bool compressed = false;         // activations that lose precision were asked for
  std::int64_t smallest_pass = 1;  // samples; two with batch norm
  bool batch_norm = false;         // statistics are those of a pass: smaller ones change the result
  bool lossy = true;               // what changes gradients or weights may be chosen
  bool may_quantize_state = true;
  bool may_move_state = true;  // to host memory
  bool may_move_data = true;
};

/// How far a plan is from the one that computes what was asked for to the last bit.
enum class Lossiness {
  None,
  Slight,  // optimizer state in 8 bits, batch norm over passes of other sizes from 16 samples on
  Marked,  // compressed activations, batch norm over fewer samples
};

/// As --activations has it.
const char* name_of(ActivationFormat format);

/// "exact", "slightly lossy" or "lossy".
const char* name_of(Lossiness lossiness);

/// Where everything is kept, and what comes of it.
struct MemoryPlan {
  PassCost pass = {};
  std::int64_t pass_size = 0;  // samples
  StateStorage state_storage = StateStorage::AsAsked;
  bool data_on_host = false;
  // Bytes on the device.
  std::int64_t weights = 0, state = 0, data = 0, step = 0, activations = 0;
  // That curvature probes and profiles of activations take on top of them, where there is room.
  std::int64_t measurements = 0;
  double state_seconds = 0;  // of a step, for state in host memory
  double samples_per_second = 0;
  Lossiness lossiness = Lossiness::None;

  std::int64_t bytes() const { return weights + state + data + step + activations; }
};

/// Makes a plan take so many bytes in all, as measured: what is not known to be anything else is
/// its step's.
void set_bytes(MemoryPlan& plan, std::int64_t bytes);

/// Whether two plans differ at most in the size of passes and in how much of them is offloaded or
/// recomputed.
bool same_means(const MemoryPlan& a, const MemoryPlan& b);

/// Batch norm over passes of fewer samples is marked in its effect.
inline constexpr std::int64_t kFewSamples = 16;

/// All plans, for each set of choices with every size of a pass: the batch in 1, 2, 3, … parts.
std::vector<MemoryPlan> memory_plans(const MemoryCosts& costs, const MemoryRequest& request);

/// How much faster than an exact plan one with losses must be to be taken, slight or marked.
inline constexpr double kWorthASlightLoss = 1.25;
inline constexpr double kWorthAMarkedLoss = 2.5;

/// Speed, divided by what losses must be worth.
double worth_of(double samples_per_second, Lossiness lossiness);
double worth_of(const MemoryPlan& plan);

/// The fastest of the plans that fit, where losses are worth it; nothing where none fits.
std::optional<MemoryPlan> plan_memory(const std::vector<MemoryPlan>& plans,
                                      std::int64_t budget_bytes);

/// The plan that needs least memory. There must be one.
MemoryPlan least_memory(const std::vector<MemoryPlan>& plans);

/// The same for each set of choices, the least of them first.
std::vector<MemoryPlan> least_of_each_means(std::vector<MemoryPlan> plans);

/// All plans that fit, the best first.
std::vector<MemoryPlan> fitting_plans(std::vector<MemoryPlan> plans, std::int64_t budget_bytes);

/// The plans that no smaller one beats, from the smallest on: those that some budget makes the
/// best.
std::vector<MemoryPlan> best_by_budget(const std::vector<MemoryPlan>& plans);

}  // namespace triaccel
