#include "triaccel/trainer/measure/memory_census.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "triaccel/base/clock.h"
#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/trainer/loop/activation_profiler.h"
#include "triaccel/trainer/loop/control_setup.h"
#include "triaccel/trainer/loop/run_parts.h"

namespace triaccel {
namespace {

constexpr std::array<std::int64_t, 2> kPassSizes = {8, 32};  // samples: a line needs two
constexpr double kBusBytesPerSecond = 20e9;                  // from host memory to a GPU

/// How activations may be kept.
struct Variant {
  ActivationFormat activations = ActivationFormat::Raw;
  bool recompute_norms = false;
};

std::vector<Variant> variants_of(const RunConfig& config, const RunParts& parts) {
  const bool open = config.activations.keep == "raw" && !config.activations.recompute_norms;
  if (!open)
    return {{.activations = config.activations.keep == "raw"         ? ActivationFormat::Raw
                            : config.activations.keep == "offloaded" ? ActivationFormat::Offloaded
                            : config.activations.keep.saves_exactly()
                                ? ActivationFormat::Lossless
                                : ActivationFormat::Compressed,
             .recompute_norms = config.activations.recompute_norms}};
  std::vector<Variant> variants = {{}};
  if (parts.method.per_layer && parts.on.device.is_cuda())
    variants.push_back({.recompute_norms = true});
  variants.push_back({.activations = ActivationFormat::Lossless});
  variants.push_back({.activations = ActivationFormat::Compressed});
  return variants;
}

RunConfig with_variant(RunConfig config, const Variant& variant) {
  if (config.activations.keep != "raw") return config;  // not open
  if (variant.activations != ActivationFormat::Raw)
    config.activations.keep =
        variant.activations == ActivationFormat::Lossless ? "lossless" : "compressed";
  config.activations.recompute_norms |= variant.recompute_norms;
  return config;
}

/// Takes the steps of a census.
class Meter {
 public:
  Meter(const RunConfig& config, RunParts& parts)
      : config_(config),
        parts_(parts),
        sampler_(parts.data.training_ids, static_cast<std::uint64_t>(config.train.seed)),
        order_(parts.on.device, parts.data.train.get()) {
    parts.network.module->train();
  }

  /// For the steps that follow. Returns the most bytes in use meanwhile, 0 where nothing was
  /// measured.
  double keep_activations(const Variant& variant) {
    const RunConfig config = with_variant(config_, variant);
    parts_.plan.saved.clear();
    parts_.make_runner(config);
    if (parts_.runner->saved() == nullptr) return 0;
    parts_.on.gauge.release_cache();
    parts_.on.gauge.reset_peak();
    plan_activations(config, parts_, order_.upcoming(sampler_, kProfileSamples));
    return static_cast<double>(parts_.on.gauge.counted_peak());
  }

  /// A step of so many passes: the second of its kind, since the first one sets libraries up.
  PassSample step(std::int64_t pass, std::int64_t passes) {
    StepPlan plan = parts_.plan;
    plan.batch_size = pass * passes;
    plan.micro_batch_size = pass;
    const at::Tensor ids = order_.upcoming(sampler_, plan.batch_size);
    rehearse(plan, ids);
    parts_.on.gauge.release_cache();
    parts_.on.gauge.reset_peak();
    const Stopwatch watch;
    rehearse(plan, ids);
    const double seconds = watch.seconds() / static_cast<double>(passes);
    return {.samples = pass,
            .bytes = static_cast<double>(parts_.on.gauge.counted_peak()),
            .seconds = seconds};
  }

 private:
  void rehearse(const StepPlan& plan, const at::Tensor& ids) {
    parts_.runner->rehearse(plan, *parts_.data.train, ids,
                            {.augment = augments(config_),
                             .epoch = sampler_.epoch(),
                             .seed = static_cast<std::uint64_t>(config_.train.seed)});
    synchronize(parts_.on.device);
  }

  const RunConfig& config_;
  RunParts& parts_;
  Sampler sampler_;
  EpochOrder order_;
};

/// The line through the steps of two sizes.
PassCost cost_of(Meter& meter, const Variant& variant, bool whole, std::int64_t batch,
                 double fixed_bytes) {
  const std::int64_t passes = whole ? 1 : 2;
  const std::int64_t large =
      std::clamp<std::int64_t>(batch / passes, 1, kPassSizes[1]);  // as large as such passes are
  const std::int64_t small = std::min(kPassSizes[0], std::max<std::int64_t>(1, large / 2));
  const PassSample first = meter.step(small, passes), second = meter.step(large, passes);
  PassCost cost = line_through(first, second, fixed_bytes);
  cost.activations = variant.activations;
  cost.recompute_norms = variant.recompute_norms;
  cost.whole = whole;
  return cost;
}

std::int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

std::int64_t state_bytes(RunConfig config, RunParts& parts, StateFormat format) {
  config.train.optimizer_state = format;
  parts.make_runner(config);
  return parts.runner->optimizer().state_bytes();
}

}  // namespace

MemoryCensus take_memory_census(const RunConfig& asked) {
  RunConfig config = resolved(asked);
  config.device.budget = {};
  RunParts parts(config);
  require(!parts.method.zeroth_order, "--method", "'", config.train.method,
          "' estimates gradients; plans are for methods with backpropagation");
  const std::int64_t batch = parts.plan.batch_size;
  const std::int64_t smallest = smallest_pass_of(parts.network);
  MemoryCensus census{
      .request = {.batch = batch,
                  .smallest_pass = smallest,
                  .batch_norm = smallest > 1,
                  .equal_passes = true,
                  .may_quantize_state = config.train.optimizer_state == StateFormat::Fp32 &&
                                        has_moments(config.train.optimizer),
                  .may_move_data =
                      parts.on.device.is_cuda() && config.data.placement == DataPlacement::Auto}};
  MemoryCosts& costs = census.costs;
  costs.weights =
      bytes_of(parts.network.module->parameters()) + bytes_of(parts.network.module->buffers());
  costs.data = parts.data.train->bytes() + parts.data.test->bytes();
  if (census.request.may_quantize_state)
    costs.state_in_8_bits = state_bytes(config, parts, StateFormat::Fp8);
  costs.state = state_bytes(config, parts, config.train.optimizer_state);
  costs.data_seconds = static_cast<double>(costs.data) /
                       static_cast<double>(parts.data.train->size() + parts.data.test->size()) /
                       kBusBytesPerSecond;
  Meter meter(config, parts);
  const auto fixed = static_cast<double>(costs.weights + costs.state + costs.data);
  for (const Variant& variant : variants_of(config, parts)) {
    const double profile = meter.keep_activations(variant);
    for (const bool whole : {true, false}) {
      costs.passes.push_back(cost_of(meter, variant, whole, batch, fixed));
      costs.passes.back().profile_bytes = std::max(0.0, profile - fixed);
    }
  }
  return census;
}

RunConfig with_memory_plan(RunConfig config, const MemoryPlan& plan) {
  config = with_variant(std::move(config), {.activations = plan.pass.activations,
                                            .recompute_norms = plan.pass.recompute_norms});
  if (plan.state_in_8_bits) config.train.optimizer_state = StateFormat::Fp8;
  if (plan.data_on_host) config.data.placement = DataPlacement::Host;
  const std::int64_t samples = config.train.batch * config.train.accumulate;
  config.train.batch = plan.pass_size;
  config.train.accumulate = divide_up(samples, plan.pass_size);
  return config;
}

}  // namespace triaccel
