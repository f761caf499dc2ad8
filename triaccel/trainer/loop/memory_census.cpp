#include "triaccel/trainer/loop/memory_census.h"

#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "triaccel/base/clock.h"
#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/device/captured_work.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/trainer/loop/activation_profiler.h"
#include "triaccel/trainer/loop/control_setup.h"
#include "triaccel/trainer/loop/curvature_meter.h"

namespace triaccel {
namespace {

constexpr std::int64_t kLargestPass = 32;    // samples: as many as tell what one more takes
constexpr double kBusBytesPerSecond = 20e9;  // assumed: between host memory and a GPU, each way
constexpr double kLeastGain = 1.05;          // in worth, for other means to be measured
constexpr std::int64_t kMuchMore = 4;        // no way to save memory lets passes grow more

/// How activations may be kept, and whether steps are captured.
struct Variant {
  ActivationFormat activations = ActivationFormat::Raw;
  double offload_share = 1;
  bool recompute_norms = false;
  double recompute_segments = 0;
  bool eager = false;  // not captured though they could be
  bool casts_by_layer = false;
};

ActivationFormat format_of(const ActivationMode& mode) {
  if (mode == "raw") return ActivationFormat::Raw;
  if (mode == "offloaded") return ActivationFormat::Offloaded;
  return mode.saves_exactly() ? ActivationFormat::Lossless : ActivationFormat::Compressed;
}

std::vector<Variant> variants_of(const RunConfig& config, const RunParts& parts, bool capture) {
  const bool on_gpu = parts.on.device.is_cuda();
  std::vector<Variant> variants;
  const RunConfig::Activations& asked = config.activations;
  if (asked.keep != "raw" || asked.recompute_norms || asked.recompute_segments > 0) {
    variants.push_back({.activations = format_of(asked.keep),
                        .recompute_norms = asked.recompute_norms,
                        .recompute_segments = asked.recompute_segments});
  } else {
    variants.push_back({});
    if (parts.method.per_layer && on_gpu) variants.push_back({.recompute_norms = true});
    variants.push_back({.activations = ActivationFormat::Lossless});
    if (parts.method.per_layer) variants.push_back({.recompute_segments = 1});
    // A CPU's host memory is that of the budget.
    if (on_gpu) variants.push_back({.activations = ActivationFormat::Offloaded});
    if (config.device.lossy == LossyMeans::Auto)
      variants.push_back({.activations = ActivationFormat::Compressed});
  }
  const bool casts =
      on_gpu && parts.method.per_layer && config.control.weight_casts == WeightCasts::Step;
  std::vector<Variant> all;
  for (Variant variant : variants) {
    // Rounding weights layer by layer takes less time than recomputing, moving or compressing
    // activations.
    const bool costs_more = variant.recompute_segments > 0 ||
                            variant.activations == ActivationFormat::Offloaded ||
                            variant.activations == ActivationFormat::Compressed;
    if (!casts || !costs_more || variants.size() == 1) all.push_back(variant);
    variant.casts_by_layer = casts;
    if (casts) all.push_back(variant);
    variant.eager = capture;  // where memory is short both help
    if (capture) all.push_back(variant);
  }
  return all;
}

Variant variant_of(const MemoryPlan& plan) {
  return {.activations = plan.pass.activations,
          .offload_share = plan.pass.offload_share,
          .recompute_norms = plan.pass.recompute_norms,
          .recompute_segments = plan.pass.recompute_segments,
          .eager = plan.pass.eager,
          .casts_by_layer = plan.pass.casts_by_layer};
}

RunConfig with_variant(RunConfig config, const Variant& variant) {
  if (variant.casts_by_layer) config.control.weight_casts = WeightCasts::Layer;
  if (variant.eager) config.device.graphs = GraphCapture::Off;
  if (config.activations.keep != "raw") return config;  // not open
  config.activations.keep = name_of(variant.activations);
  config.activations.offload_share = variant.offload_share;
  config.activations.recompute_norms |= variant.recompute_norms;
  config.activations.recompute_segments = variant.recompute_segments;
  return config;
}

/// Takes the steps of a census.
class Meter {
 public:
  Meter(const RunConfig& config, RunParts& parts)
      : config_(config),
        parts_(parts),
        sampler_(parts.data.training_ids, static_cast<std::uint64_t>(config.train.seed)),
        order_(parts.on.device, parts.data.train.get()),
        plan_(parts.plan) {
    parts.network.module->train();
  }
  ~Meter() { parts_.plan = plan_; }
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  /// For the steps that follow. Returns the most bytes in use meanwhile, 0 where nothing was
  /// measured; nothing where it does not fit.
  std::optional<double> use(const Variant& variant) {
    const RunConfig config = with_variant(config_, variant);
    parts_.plan = plan_;
    return fitting([&] {
      parts_.make_runner(config);
      if (parts_.runner->saved() == nullptr) return 0.0;
      parts_.on.gauge.release_cache();
      parts_.on.gauge.reset_peak();
      plan_activations(config, parts_, order_.upcoming(sampler_, kProfileSamples));
      return static_cast<double>(parts_.on.gauge.counted_peak());
    });
  }

  /// A step of so many samples in passes, where it fits.
  std::optional<PassSample> step(std::int64_t pass, std::int64_t samples) {
    const StepPlan plan = plan_of(pass, samples);
    return fitting([&] {
      const at::Tensor ids = order_.upcoming(sampler_, plan.batch_size);
      // The first one sets libraries up.
      if (parts_.on.device.is_cuda() || !parts_.runner->knows_segments()) rehearse(plan, ids);
      std::optional<double> replay;
      if (parts_.runner->graphs() != nullptr)
        replay = parts_.runner->replay_seconds(plan, *parts_.data.train, ids, gather());
      release();
      parts_.on.gauge.reset_peak();
      const Stopwatch watch;
      rehearse(plan, ids);
      const double seconds =
          replay.value_or(watch.seconds()) / static_cast<double>(divide_up(samples, pass));
      const MemoryReport memory = parts_.on.gauge.read();
      return PassSample{.samples = pass,
                        .bytes = static_cast<double>(memory.peak),
                        .overhead = static_cast<double>(memory.reserved - memory.peak),
                        .seconds = seconds};
    });
  }

  /// The bytes that a run takes besides its steps: for curvature probes and profiles of
  /// activations, which take fewer samples where memory is short. After a step that fits; nothing
  /// where it then does not.
  std::optional<std::int64_t> measurements(const Variant& variant, std::int64_t pass,
                                           std::int64_t samples) {
    const RunConfig config = with_variant(config_, variant);
    const bool probes = probes_curvature(config, parts_);
    const bool profiles = parts_.runner->saved() != nullptr;
    const bool profiles_again = profiles && !config.activations.keep.saves_exactly();
    if (!probes && !profiles) return 0;
    const std::int64_t limit = parts_.on.gauge.read().limit;  // they may fill the whole budget
    const ScopedLimit whole(parts_.on.gauge, limit > 0 ? budget_for(limit) : 0);
    return fitting([&] {
      CurvatureOptions options = curvature_options(config);
      options.most_iterations = 1;  // more take time, but no memory
      CurvatureMeter curvature(config, parts_, options);
      const auto ids = [&] { return order_.upcoming(sampler_, curvature.batch()); };
      for (int probe = 0; probes && probe < 2; ++probe) curvature.probe(ids, /*step=*/0);
      if (probes) curvature.take();
      const auto profile = [&] {
        plan_activations(config, parts_, order_.upcoming(sampler_, kProfileSamples));
        return true;
      };
      if (profiles && parts_.runner->graphs() != nullptr) {
        if (profiles_again) fitting(profile);  // while steps are captured a run can do without
        release();
      }
      if (profiles) profile();                   // but not without the first one
      if (parts_.runner->graphs() == nullptr) {  // captured steps keep their memory
        release();
        const StepPlan plan = plan_of(pass, samples);
        rehearse(plan, order_.upcoming(sampler_, plan.batch_size));
      }
      return parts_.on.gauge.counted_peak();
    });
  }

 private:
  StepPlan plan_of(std::int64_t pass, std::int64_t samples) const {
    StepPlan plan = parts_.plan;
    plan.batch_size = std::min(samples, std::ssize(parts_.data.training_ids));
    plan.micro_batch_size = pass;
    return plan;
  }

  template <typename Measure>
  auto fitting(const Measure& measure) -> std::optional<decltype(measure())> {
    try {
      return catching_out_of_memory(measure);
    } catch (const OutOfMemory&) {
      release();
      return {};
    }
  }

  /// What steps before this one have left, in the memory of captured ones too.
  void release() {
    if (parts_.runner && parts_.runner->graphs() != nullptr) parts_.runner->graphs()->clear();
    parts_.on.gauge.release_cache();
  }

  void rehearse(const StepPlan& plan, const at::Tensor& ids) {
    parts_.runner->rehearse(plan, *parts_.data.train, ids, gather());
    synchronize(parts_.on.device);
  }

  GatherOptions gather() const {
    return {.augment = augments(config_),
            .epoch = sampler_.epoch(),
            .seed = static_cast<std::uint64_t>(config_.train.seed)};
  }

  const RunConfig& config_;
  RunParts& parts_;
  Sampler sampler_;
  EpochOrder order_;
  StepPlan plan_;  // the run's
};

struct MeasuredCost {
  PassCost cost;
  std::int64_t size = 0;  // samples of the largest pass that was measured
};

/// The line through the steps of two sizes, the larger one at most `most` and as large as fits;
/// nothing where not even the smallest does.
std::optional<MeasuredCost> two_sizes(Meter& meter, std::int64_t passes,
                                      const MemoryRequest& request, std::int64_t most,
                                      double fixed_bytes) {
  const std::int64_t smallest = std::min(request.smallest_pass, request.batch);
  // As large as such passes are.
  std::int64_t size = std::clamp(request.batch / passes, smallest, std::max(smallest, most));
  std::optional<PassSample> large = meter.step(size, passes * size);
  while (!large && size > smallest) {
    size = std::max(smallest, size / 2);
    large = meter.step(size, passes * size);
  }
  if (!large) return {};
  const std::int64_t less = std::max(smallest, size / 4);
  const std::optional<PassSample> small =
      less < size ? meter.step(less, passes * less) : std::nullopt;
  if (small) return MeasuredCost{line_through(*small, *large, fixed_bytes), size};
  return MeasuredCost{{.largest = size,
                       .bytes = large->bytes + large->overhead - fixed_bytes,
                       .seconds_per_sample = large->seconds / static_cast<double>(size)},
                      size};
}

/// The same for a batch in one pass, from one step: a sample takes as much as in several.
std::optional<MeasuredCost> one_size(Meter& meter, const MeasuredCost& several,
                                     const MemoryRequest& request, double fixed_bytes) {
  const std::int64_t smallest = std::min(request.smallest_pass, request.batch);
  std::int64_t size = several.size;
  std::optional<PassSample> step = meter.step(size, size);
  if (!step && size > smallest) {
    size = std::max(smallest, size / 4);
    step = meter.step(size, size);
  }
  if (!step) return {};
  PassCost cost = several.cost;
  const auto samples = static_cast<double>(size);
  cost.bytes = step->bytes + step->overhead - fixed_bytes - samples * cost.bytes_per_sample;
  cost.seconds = std::max(0.0, step->seconds - samples * cost.seconds_per_sample);
  return MeasuredCost{cost, size};
}

/// The samples of a few passes that have all sizes that those of a batch have.
std::int64_t first_passes(std::int64_t batch, std::int64_t pass) {
  constexpr std::int64_t kFewPasses = 3;
  if (divide_up(batch, pass) <= kFewPasses) return batch;
  return kFewPasses * pass - (batch % pass == 0 ? 0 : 1);
}

std::int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

/// More than there is where it does not fit.
std::int64_t state_bytes(RunConfig config, RunParts& parts, StateFormat format) {
  config.train.optimizer_state = format;
  try {
    catching_out_of_memory([&] { parts.make_runner(config); });
  } catch (const OutOfMemory&) {
    return device_total_bytes(parts.on.device);
  }
  return parts.runner->optimizer().state_bytes();
}

/// What moves over the bus, out and back, takes its time however little was measured: small passes
/// hide it behind enqueuing.
PassCost with_bus(PassCost cost, const std::vector<PassCost>& before) {
  const auto first = std::ranges::find(before, cost.whole, &PassCost::whole);
  if (cost.activations != ActivationFormat::Offloaded || first == before.end()) return cost;
  const double moved = std::max(0.0, first->bytes_per_sample - cost.bytes_per_sample);
  cost.seconds_per_sample = std::max(cost.seconds_per_sample, 2 * moved / kBusBytesPerSecond);
  return cost;
}

/// Whether plans with steps of this kind, whatever they cost, may beat those that fit already: none
/// takes less time per sample than the fastest that is known.
bool may_be_better(const Variant& variant, const MemoryCensus& census, std::int64_t budget_bytes) {
  const MemoryCosts& costs = census.costs;
  const auto best = plan_memory(memory_plans(costs, census.request), budget_bytes);
  if (!best) return true;
  const auto least_seconds = least_seconds_per_sample(costs.passes);
  if (!least_seconds) return true;
  const bool marked = variant.activations == ActivationFormat::Compressed;
  return worth_of(1 / *least_seconds, marked ? Lossiness::Marked : Lossiness::None) >
         kLeastGain * worth_of(*best);
}

}  // namespace

MemoryCensus take_memory_census(RunParts& parts, std::int64_t most, std::int64_t budget_bytes) {
  RunConfig config = parts.config;
  require(!parts.method.zeroth_order, "--method", "'", config.train.method,
          "' estimates gradients; plans are for methods with backpropagation");
  const bool lossy = config.device.lossy == LossyMeans::Auto;
  MemoryCensus census{
      .request = {.batch = parts.plan.batch_size,
                  .asked_pass = parts.plan.micro_batch_size,
                  .compressed = !config.activations.keep.saves_exactly(),
                  .smallest_pass = smallest_pass_of(parts.network),
                  .batch_norm = smallest_pass_of(parts.network) > 1,
                  .lossy = lossy,
                  .may_quantize_state = lossy && has_moments(config.train.optimizer) &&
                                        config.train.optimizer_state == StateFormat::Fp32,
                  .may_move_data = false}};
  MemoryCosts& costs = census.costs;
  costs.weights =
      bytes_of(parts.network.module->parameters()) + bytes_of(parts.network.module->buffers());
  costs.data = parts.data.train->bytes() + parts.data.test->bytes();
  costs.state = state_bytes(config, parts, config.train.optimizer_state);
  if (census.request.may_quantize_state) {
    config.train.optimizer_state = StateFormat::Fp8;
    costs.state_in_8_bits = state_bytes(config, parts, StateFormat::Fp8);
  }
  // Measured with the least that can be kept.
  const auto fixed = static_cast<double>(
      costs.weights + costs.data +
      (census.request.may_quantize_state ? costs.state_in_8_bits : costs.state));
  Meter meter(config, parts);
  const bool capture =
      parts.on.device.is_cuda() && can_capture() && config.device.graphs != GraphCapture::Off;
  const bool limited = parts.on.budget_bytes > 0;
  std::int64_t most_now = most;
  for (const Variant& variant : variants_of(config, parts, capture)) {
    if (budget_bytes > 0 && !may_be_better(variant, census, budget_bytes)) {
      census.complete = false;
      continue;
    }
    const std::optional<double> profile = meter.use(variant);
    if (!profile) continue;
    const auto add = [&](PassCost cost, bool whole) {
      cost.activations = variant.activations;
      cost.recompute_norms = variant.recompute_norms;
      cost.recompute_segments = variant.recompute_segments;
      cost.eager = variant.eager;
      cost.casts_by_layer = variant.casts_by_layer;
      cost.whole = whole;
      // Within a budget fewer samples are profiled.
      if (!limited) cost.profile_bytes = std::max(0.0, *profile - fixed);
      costs.passes.push_back(with_bus(not_faster(cost, costs.passes), costs.passes));
    };
    const auto several = two_sizes(meter, /*passes=*/2, census.request, most_now, fixed);
    const bool has_segments = parts.runner->recomputed_segments() > 0;
    if (variant.recompute_segments > 0 && several && !has_segments) continue;
    // Within a budget the plans that look best are measured themselves.
    const auto whole = limited && several
                           ? one_size(meter, *several, census.request, fixed)
                           : two_sizes(meter, /*passes=*/1, census.request, most_now, fixed);
    if (whole) add(whole->cost, true);
    if (several) add(several->cost, false);
    if (limited && several) most_now = std::min(most, kMuchMore * several->size);
  }
  add_partial_offload(costs);
  add_partial_recomputation(costs);
  return census;
}

RunConfig without_budget(const RunConfig& asked) {
  RunConfig config = resolved(asked);
  config.device.budget = {};
  return config;
}

MemoryCensus take_memory_census(RunParts& parts) {
  MemoryCensus census = take_memory_census(parts, kLargestPass, /*budget_bytes=*/0);
  census.request.may_move_data =
      parts.on.device.is_cuda() && parts.config.data.placement == DataPlacement::Auto;
  census.costs.data_seconds =
      static_cast<double>(census.costs.data) /
      static_cast<double>(parts.data.train->size() + parts.data.test->size()) / kBusBytesPerSecond;
  return census;
}

std::optional<MemoryPlan> measured_plan(RunParts& parts, MemoryPlan plan, bool profile) {
  const RunConfig config = with_memory_means(parts.config, plan);
  Meter meter(config, parts);
  const std::int64_t batch = parts.plan.batch_size;
  const std::optional<double> profiled = meter.use(variant_of(plan));
  if (!profiled) return {};
  const std::int64_t samples = first_passes(batch, plan.pass_size);
  const std::optional<PassSample> step = meter.step(plan.pass_size, samples);
  if (!step) return {};
  double bytes = step->bytes + step->overhead;
  if (profile) bytes = std::max(bytes, *profiled);
  if (parts.on.gauge.read().limit > 0) {
    const auto more = meter.measurements(variant_of(plan), plan.pass_size, samples);
    if (!more) return {};
    plan.measurements = std::max<std::int64_t>(0, *more - static_cast<std::int64_t>(bytes));
  }
  const auto passes = static_cast<double>(divide_up(batch, plan.pass_size));
  plan.samples_per_second = static_cast<double>(batch) / (passes * step->seconds);
  if (plan.data_on_host)
    bytes -= static_cast<double>(parts.data.train->bytes() + parts.data.test->bytes());
  plan.step += static_cast<std::int64_t>(bytes) - plan.bytes();
  return plan;
}

RunConfig with_memory_means(RunConfig config, const MemoryPlan& plan) {
  config = with_variant(std::move(config), variant_of(plan));
  if (plan.state_in_8_bits) config.train.optimizer_state = StateFormat::Fp8;
  return config;
}

}  // namespace triaccel
