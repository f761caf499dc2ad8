#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "triaccel/core/sampler.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/policies/memory/memory_plan.h"
#include "triaccel/trainer/loop/run_parts.h"

namespace triaccel {

/// How activations may be kept, and whether steps are captured.
struct MemoryVariant {
  ActivationFormat activations = ActivationFormat::Raw;
  double offload_share = 1;
  bool recompute_norms = false;
  double recompute_segments = 0;
  bool eager = false;  // not captured though they could be
  bool casts_by_layer = false;
};

/// Of what --activations says.
ActivationFormat format_of(const ActivationMode& mode);

/// The ways that a configuration leaves open. `capture`: whether steps may be captured.
std::vector<MemoryVariant> variants_of(const RunConfig& config, const RunParts& parts,
                                       bool capture);

MemoryVariant variant_of(const MemoryPlan& plan);

RunConfig with_variant(RunConfig config, const MemoryVariant& variant);

/// Takes steps, which are undone, and measures them. Where one does not fit there is no result.
class MemoryMeter {
 public:
  /// Both must outlive it.
  MemoryMeter(const RunConfig& config, RunParts& parts);
  ~MemoryMeter() { parts_.plan = plan_; }
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  /// For the steps that follow, the optimizer's state kept like that. Returns the most bytes in use
  /// meanwhile, 0 where nothing was measured.
  std::optional<double> use(const MemoryVariant& variant, StateFormat state);

  /// A step of so many samples in passes.
  std::optional<PassSample> step(std::int64_t pass, std::int64_t samples);

  /// The bytes that a run takes besides its steps: for curvature probes and profiles of
  /// activations, which take fewer samples where memory is short. After a step that fits; nothing
  /// where it then does not.
  std::optional<std::int64_t> measurements(const MemoryVariant& variant, std::int64_t pass,
                                           std::int64_t samples);

 private:
  template <typename Measure>
  auto fitting(const Measure& measure) -> std::optional<decltype(measure())>;
  StepPlan plan_of(std::int64_t pass, std::int64_t samples) const;
  void release();
  void rehearse(const StepPlan& plan, const at::Tensor& ids);
  GatherOptions gather() const;

  const RunConfig& config_;
  RunParts& parts_;
  Sampler sampler_;
  EpochOrder order_;
  StepPlan plan_;  // the run's
};

}  // namespace triaccel
