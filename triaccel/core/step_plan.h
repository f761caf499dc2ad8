#pragma once

#include <cstdint>
#include <vector>

#include "triaccel/core/precision.h"
#include "triaccel/core/saved_plan.h"
#include "triaccel/core/state_view.h"

namespace triaccel {

/// What becomes at most of a layer's saved activations: Lossless and Offloaded, to host memory,
/// keep every bit of the gradients, Compressed does not.
enum class ActivationFormat { Raw, Lossless, Compressed, Offloaded };

/// Where a layer's gradient comes from.
enum class GradientSource { Backprop, ZerothOrder };

/// What one layer does during one step.
struct LayerPlan {
  Precision compute = Precision::Fp32;
  ActivationFormat saved = ActivationFormat::Raw;
  GradientSource gradient = GradientSource::Backprop;
  float learning_rate_scale = 1.0f;
  bool operator==(const LayerPlan&) const = default;
};

/// Every decision that shapes a step. A value: compared, hashed, logged, replayed.
struct StepPlan {
  std::int64_t batch_size = 0;         // samples per optimizer step
  std::int64_t micro_batch_size = 0;   // samples per forward and backward; at most batch_size
  float learning_rate_scale = 1.0f;    // of every layer: the answer to another batch size
  std::vector<LayerPlan> layers = {};  // index = LayerId, forward order
  std::vector<SavedPlan> saved = {};   // index = number of the saved tensor; empty: all raw
  bool operator==(const StepPlan&) const = default;
};

/// A plan and where in a run it comes into force.
struct ScheduledPlan {
  std::int64_t step = 0;  // optimizer steps done before the first step under this plan
  StepPlan plan = {};
  bool operator==(const ScheduledPlan&) const = default;
};

/// Hash over every field: equal plans, equal hashes, on every machine.
std::uint64_t plan_hash(const StepPlan& plan);

/// Hash over what shapes the computation: batch sizes, precisions, formats, gradient sources,
/// codecs. Learning rates travel as device data and are not included, so changing them
/// recaptures nothing.
std::uint64_t shape_hash(const StepPlan& plan);

/// A plan as a checkpoint keeps it.
std::vector<StateView> plan_state(const StepPlan& plan);

/// Whether a checkpoint keeps a plan.
bool holds_plan(const StateMap& saved);

/// Reads what plan_state wrote; StorageError unless it is a plan of `layer_count` layers. A
/// checkpoint from before tensors had codecs gives a plan without any.
StepPlan plan_from(const StateMap& saved, std::int64_t layer_count);

}  // namespace triaccel
