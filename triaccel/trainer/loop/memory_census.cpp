#include "triaccel/trainer/loop/memory_census.h"

#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "triaccel/base/clock.h"
#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/device/captured_work.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/host_memory.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/trainer/loop/memory_meter.h"

namespace triaccel {
namespace {

constexpr std::int64_t kLargestPass = 32;    // samples: as many as tell what one more takes
constexpr double kBusBytesPerSecond = 20e9;  // assumed: between host memory and a GPU, each way
constexpr double kLeastGain = 1.05;          // in worth, for other means to be measured
constexpr std::int64_t kMuchMore = 4;        // no way to save memory lets passes grow more

/// Nothing: as asked for.
std::optional<StateFormat> format_of(StateStorage storage) {
  switch (storage) {
    case StateStorage::AsAsked:
      return {};
    case StateStorage::EightBits:
      return StateFormat::Fp8;
    case StateStorage::Host:
      return StateFormat::Host;
  }
  return {};
}

struct MeasuredCost {
  PassCost cost;
  std::int64_t size = 0;  // samples of the largest pass that was measured
};

/// The line through the steps of two sizes, the larger one at most `most` and as large as fits;
/// nothing where not even the smallest does.
std::optional<MeasuredCost> two_sizes(MemoryMeter& meter, std::int64_t passes,
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
  return MeasuredCost{only_size(*large, fixed_bytes), size};
}

/// The same for a batch in one pass, from one step: a sample takes as much as in several.
std::optional<MeasuredCost> one_size(MemoryMeter& meter, const MeasuredCost& several,
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

/// One way to keep the optimizer's state while steps are measured.
struct KeptState {
  StateFormat format;
  std::int64_t device_bytes;
};

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

/// Of an optimizer with moments, in FP32; nothing is allocated to know it.
std::int64_t moment_bytes(OptimizerKind kind, const std::vector<at::Tensor>& parameters) {
  return (kind == OptimizerKind::AdamW ? 2 : 1) * bytes_of(parameters);
}

/// What the device takes to read and write so many bytes of host memory in place. Steps that are
/// undone do not show it: they update nothing.
double host_update_seconds(c10::Device device, std::int64_t bytes) {
  const std::int64_t tried = std::min<std::int64_t>(bytes, 16 << 20);
  if (tried < static_cast<std::int64_t>(sizeof(float))) return 0;
  const std::int64_t count = tried / static_cast<std::int64_t>(sizeof(float));
  const HostTensor values = make_host_tensor({count}, at::kFloat, device);
  values.on_host.zero_();
  double seconds = 0;
  for (int turn = 0; turn < 2; ++turn) {  // the first one sets libraries up
    synchronize(device);
    const Stopwatch watch;
    at::Tensor(values.for_device).add_(1);
    synchronize(device);
    seconds = watch.seconds();
  }
  return seconds * static_cast<double>(bytes) / static_cast<double>(tried);
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
bool may_be_better(const MemoryVariant& variant, const MemoryCensus& census,
                   std::int64_t budget_bytes) {
  const MemoryCosts& costs = census.costs;
  const auto best = plan_memory(memory_plans(costs, census.request), budget_bytes);
  if (!best) return true;
  const auto least_seconds = least_seconds_per_sample(costs.passes);
  if (!least_seconds) return true;
  const bool marked = variant.activations == ActivationFormat::Compressed;
  return worth_of(1 / *least_seconds, marked ? Lossiness::Marked : Lossiness::None) >
         kLeastGain * worth_of(*best);
}

std::optional<MemoryPlan> measured_here(RunParts& parts, MemoryPlan plan, bool profile) {
  const RunConfig config = with_memory_means(parts.config, plan);
  MemoryMeter meter(config, parts);
  const std::int64_t batch = parts.plan.batch_size;
  const std::optional<double> profiled = meter.use(variant_of(plan), config.train.optimizer_state);
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
  plan.samples_per_second =
      static_cast<double>(batch) / (passes * step->seconds + plan.state_seconds);
  if (plan.data_on_host)
    bytes -= static_cast<double>(parts.data.train->bytes() + parts.data.test->bytes());
  set_bytes(plan, static_cast<std::int64_t>(bytes));
  return plan;
}

}  // namespace

MemoryCensus take_memory_census(RunParts& parts, std::int64_t most, std::int64_t budget_bytes) {
  const RunConfig& config = parts.config;
  require(!parts.method.zeroth_order, "--method", "'", config.train.method,
          "' estimates gradients; plans are for methods with backpropagation");
  const bool on_gpu = parts.on.device.is_cuda();
  const bool lossy = config.device.lossy == LossyMeans::Auto;
  const bool plain_state =
      has_moments(config.train.optimizer) && config.train.optimizer_state == StateFormat::Fp32;
  MemoryCensus census{.request = {.batch = parts.plan.batch_size,
                                  .asked_pass = parts.plan.micro_batch_size,
                                  .accumulated = config.train.accumulate > 1,
                                  .compressed = !config.activations.keep.saves_exactly(),
                                  .smallest_pass = smallest_pass_of(parts.network),
                                  .batch_norm = smallest_pass_of(parts.network) > 1,
                                  .lossy = lossy,
                                  .may_quantize_state = lossy && plain_state,
                                  .may_move_state = on_gpu && plain_state,
                                  .may_move_data = false}};
  MemoryCosts& costs = census.costs;
  costs.weights =
      bytes_of(parts.network.module->parameters()) + bytes_of(parts.network.module->buffers());
  costs.data = parts.data.train->bytes() + parts.data.test->bytes();
  costs.state = state_bytes(config, parts, config.train.optimizer_state);
  if (census.request.may_move_state)
    costs.state_seconds = host_update_seconds(
        parts.on.device, moment_bytes(config.train.optimizer, parts.network.module->parameters()));
  // Measured with the least state on the device, and where that does not fit, with none there.
  std::vector<KeptState> states = {{config.train.optimizer_state, costs.state}};
  if (census.request.may_quantize_state) {
    costs.state_in_8_bits = state_bytes(config, parts, StateFormat::Fp8);
    states = {{StateFormat::Fp8, costs.state_in_8_bits}};
  }
  if (census.request.may_move_state) states.push_back({StateFormat::Host, 0});
  MemoryMeter meter(config, parts);
  const bool capture = on_gpu && can_capture() && config.device.graphs != GraphCapture::Off;
  const bool limited = parts.on.budget_bytes > 0;
  std::int64_t most_now = most;
  const auto measure = [&](const MemoryVariant& variant, const KeptState& state) {
    const auto fixed = static_cast<double>(costs.weights + costs.data + state.device_bytes);
    const std::optional<double> profile = meter.use(variant, state.format);
    if (!profile) return false;
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
    if (variant.recompute_segments > 0 && several && !has_segments) return true;
    // Within a budget the plans that look best are measured themselves.
    const auto whole = limited && several
                           ? one_size(meter, *several, census.request, fixed)
                           : two_sizes(meter, /*passes=*/1, census.request, most_now, fixed);
    if (whole) add(whole->cost, true);
    if (several) add(several->cost, false);
    if (limited && several) most_now = std::min(most, kMuchMore * several->size);
    return whole || several;
  };
  for (const MemoryVariant& variant : variants_of(config, parts, capture)) {
    if (budget_bytes > 0 && !may_be_better(variant, census, budget_bytes)) {
      census.complete = false;
      continue;
    }
    std::ranges::any_of(states, [&](const KeptState& state) { return measure(variant, state); });
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
  // Profiles take as many samples as suit the pass.
  const std::int64_t asked = std::exchange(parts.plan.micro_batch_size, plan.pass_size);
  std::optional<MemoryPlan> measured = measured_here(parts, std::move(plan), profile);
  parts.plan.micro_batch_size = asked;
  return measured;
}

RunConfig with_memory_means(RunConfig config, const MemoryPlan& plan) {
  config = with_variant(std::move(config), variant_of(plan));
  if (const auto format = format_of(plan.state_storage)) config.train.optimizer_state = *format;
  return config;
}

}  // namespace triaccel
