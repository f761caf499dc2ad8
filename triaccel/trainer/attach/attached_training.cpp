#include "triaccel/trainer/attach/attached_training.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/layers/convolution/kernel_choice.h"
#include "triaccel/trainer/loop/control_setup.h"
#include "triaccel/trainer/loop/memory_census.h"
#include "triaccel/trainer/loop/memory_meter.h"
#include "triaccel/trainer/loop/run_parts.h"

namespace triaccel {
namespace {

constexpr const char* kCounters = "attach.counters";
constexpr const char* kCompressedPasses = "attach.passes";  // under the store of saved activations
constexpr std::int64_t kLeastPlannedPasses = 4;  // of the smallest size, in a batch that is planned

/// The hardware's arithmetic where it has a format, otherwise FP32 on rounded values. Which
/// algorithm computes a convolution is libtorch's choice.
KernelChoices kernels_for(std::size_t layers, c10::Device device) {
  const auto arithmetic = [&](Precision precision) {
    return ConvolutionKernel{.arithmetic = fixed_product_kernel(precision, device).arithmetic};
  };
  return {.layers = std::vector<LayerKernels>(layers, {.fp32 = arithmetic(Precision::Fp32),
                                                       .bf16 = arithmetic(Precision::Bf16),
                                                       .fp16 = arithmetic(Precision::Fp16)})};
}

Precision first_precision(LayerPrecision wanted) {
  switch (wanted) {
    case LayerPrecision::Auto:
    case LayerPrecision::Bf16:
      return Precision::Bf16;
    case LayerPrecision::Fp16:
      throw UsageError(
          "precision 'fp16' needs an optimizer that skips steps with infinite gradients; use "
          "'auto' "
          "or 'bf16'");
    case LayerPrecision::Off:
    case LayerPrecision::Fp32:
      break;
  }
  return Precision::Fp32;
}

RunConfig config_of(const AttachOptions& options) {
  RunConfig config;
  config.activations = options.activations;
  config.control.curvature = options.curvature;
  return config;
}

/// What of a batch is decided: the size of passes, where there is a budget to keep.
ControlOptions control_options(const AttachOptions& wanted, c10::Device device,
                               std::int64_t samples) {
  ControlOptions options = default_options(wanted.policy);
  options.precision_on = wanted.precision == LayerPrecision::Auto;
  options.precision.has_bf16 = formats_on(device).bf16;
  options.precision.has_fp16 = false;  // only an optimizer that skips steps can go with it
  options.curvature_on = wanted.curvature != CurvatureSource::Off;
  options.curvature.cap = curvature_cap(curvature_options(config_of(wanted)).mode);
  options.curvature.momentum = wanted.momentum;
  options.batch.mode = wanted.elastic            ? BatchMode::Elastic
                       : wanted.budget_bytes > 0 ? BatchMode::Micro
                                                 : BatchMode::Off;
  options.batch.smallest = std::min(wanted.smallest_pass, samples);
  options.batch.planned_pass = std::min(wanted.planned_pass, samples);
  options.batch.planned_limit = wanted.budget_bytes;
  if (wanted.elastic)
    options.batch.bucket = samples;  // whole batches of the caller's loader
  else
    options.batch.rate = RateRule::None;
  if (device.is_cpu()) options.batch.measurement_noise = 0.002;
  return options;
}

}  // namespace

/// Forward passes by the last plan, whose gradients others apply, perhaps before the last pass:
/// weights are then rounded where they are read.
struct AttachedTraining::PlannedPass {
  explicit PlannedPass(LayerExecution& planned)
      : layers(planned), scope(layers), hooks(layers.again()) {
    if (!at::GradMode::is_enabled()) reading.emplace(&layers);  // an evaluation
    layers.begin_pass();
  }
  ~PlannedPass() { layers.end_pass(); }

  LayerExecution& layers;
  std::optional<ReadingWeights> reading;
  OperatorScope scope;
  UserHooksScope hooks;
};

AttachedTraining::AttachedTraining(StepNetwork network, const LayerRegistry& registry,
                                   const AttachOptions& options, c10::Device device)
    : options_(options), device_(device), gauge_(device) {
  for (const LayerInfo& layer : registry.layers()) {
    kinds_.push_back(layer.kind);
    normalized_.push_back(layer.normalized);
    names_.push_back(layer.name);
  }
  ensure(std::ssize(kinds_) == network.layer_count, "the registry is of the network");
  const Precision first = first_precision(options.precision);
  require(first == Precision::Fp32 || formats_on(device).bf16, "attach", "this device has no BF16");
  plan_ = starting_plan();
  if (options.budget_bytes > 0)
    budget_ = std::make_unique<HeldBudget>(gauge_, device, options.budget_bytes);
  gauge_.reset_peak();
  StepRunnerOptions runner{.own_optimizer = options.optimizer,
                           .graphs = options.optimizer != nullptr,
                           .leave_gradients = options.optimizer == nullptr};
  if (options.precision != LayerPrecision::Off && !options.traced)
    runner.layers =
        LayerOptions{.kernels = kernels_for(kinds_.size(), device), .fuse = runner.graphs};
  if (options.curvature != CurvatureSource::Off)
    probe_ = std::make_unique<CurvatureProbe>(ProbeNetwork{.parameters = network.parameters,
                                                           .weights = network.weights,
                                                           .buffers = network.buffers},
                                              curvature_options(config_of(options)), device);
  const bool raw = options.activations.keep == "raw";
  if (!raw) runner.saved = saved_store_options(config_of(options));
  runner_ = std::make_unique<StepRunner>(std::move(network), runner, gauge_, device);
  if (!raw) profiler_ = std::make_unique<ActivationProfiler>(*runner_, gauge_);
  if (!options.optimizer) return;
  runner_->gradient_control().set_applied_steps(options.applied_steps);
  loss_ = at::zeros({}, at::TensorOptions(at::kFloat).device(device));
}

AttachedTraining::~AttachedTraining() = default;

StepPlan AttachedTraining::starting_plan() const {
  StepPlan plan;
  plan.layers.assign(kinds_.size(), {.compute = first_precision(options_.precision)});
  return plan;
}

bool AttachedTraining::decides() const {
  return options_.reports || probe_ || options_.precision == LayerPrecision::Auto ||
         options_.budget_bytes > 0 || profiler_ || plan_.micro_batch_size < plan_.batch_size;
}

void AttachedTraining::start(std::int64_t samples) {
  first_samples_ = samples;
  plan_.batch_size = plan_.micro_batch_size = samples;
  if (options_.planned_pass > 0) plan_.micro_batch_size = std::min(samples, options_.planned_pass);
  ControlSetup setup{.plan = plan_,
                     .kinds = kinds_,
                     .normalized = normalized_,
                     .options = control_options(options_, device_, samples),
                     .probe_every = probe_ ? options_.curvature_every : 0,
                     .smallest_pass = std::min(options_.smallest_pass, samples)};
  if (profiler_) setup.activations = activation_options(config_of(options_));
  control_ = std::make_unique<Controller>(setup);
  plan_ = control_->first_plan();
}

void AttachedTraining::profile_if_due(std::int64_t samples, const ClosureBatch::Closure& closure,
                                      bool also_if_restored) {
  if (knows_saved_ && profiled_at_ == steps_) return;  // with a pass of the same step
  profiled_at_ = steps_;
  const bool restored = !knows_saved_ && !plan_.saved.empty();
  profile_once(samples, closure);
  // What a session that was not restored would do here.
  if (restored && knows_saved_ && also_if_restored) profile_once(samples, closure);
}

void AttachedTraining::profile_once(std::int64_t samples, const ClosureBatch::Closure& closure) {
  Decision decision{.plan = plan_, .profile = control_->profile_due(steps_, plan_, !knows_saved_)};
  if (samples < kProfileSamples) decision.profile.reset();
  if (!knows_saved_ && !decision.profile) plan_.saved.clear();  // of tensors that are not known
  if (!decision.profile) return;
  const auto batch = [&](std::int64_t count) {
    return std::make_unique<ClosureBatch>(count, closure, device_);
  };
  try {
    while (decision.profile) {
      const ActivationProfile found =
          profiler_->measure(*decision.profile, decision.plan, batch, kProfileSamples);
      decision = control_->after_profile(found, std::move(decision));
    }
    plan_ = std::move(decision.plan);
    knows_saved_ = true;
  } catch (const OutOfMemory& error) {
    if (!knows_saved_) plan_.saved.clear();
    control_->postpone_profile(steps_);
    notices_.push_back(
        text("could not profile activations, which stay as they are: ", error.what()));
  }
  for (std::string& event : decision.events) events_.push_back(std::move(event));
  gauge_.release_cache();
  gauge_.reset_peak();
}

void AttachedTraining::probe(std::int64_t samples, const ClosureBatch::Closure& closure) {
  const auto mean_loss = [&](std::int64_t count) {
    const ClosureLoss found = closure(0, count);
    return found.count.defined() ? found.loss / found.count : found.loss;
  };
  curvature_ = probe_->run(samples, mean_loss, steps_);
  gauge_.release_cache();
  gauge_.reset_peak();
}

StepPlan AttachedTraining::plan_for(std::int64_t samples) const {
  StepPlan plan = plan_;
  const bool whole = plan_.micro_batch_size == plan_.batch_size;
  plan.batch_size = samples;
  plan.micro_batch_size = whole ? samples : std::min(samples, plan_.micro_batch_size);
  return plan;
}

at::Tensor AttachedTraining::backward(const std::vector<std::int64_t>& parts,
                                      const ClosureBatch::Closure& closure) {
  require(!options_.optimizer, "backward", "steps of this model are captured whole; use step()");
  at::Tensor loss;
  run_in_memory(parts, closure, [&](ClosureBatch& batch) {
    runner_->run(ran_, batch, /*learning_rate=*/0);
    loss = batch.mean_loss();
  });
  return loss;
}

at::Tensor AttachedTraining::step(const std::vector<std::int64_t>& parts,
                                  const ClosureBatch::Closure& closure, std::uint64_t key) {
  require(options_.optimizer != nullptr, "step", "needs an optimizer");
  run_in_memory(parts, closure, [&](ClosureBatch& batch) {
    batch.allow_replay(key, loss_);
    runner_->run(ran_, batch, /*learning_rate=*/1);  // times the optimizer's own
  });
  return loss_.clone();
}

void AttachedTraining::run_in_memory(const std::vector<std::int64_t>& parts,
                                     const ClosureBatch::Closure& closure,
                                     const std::function<void(ClosureBatch&)>& run) {
  const std::int64_t samples = std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  require(samples > 0, "attach", "the batch has no samples");
  if (!control_) start(parts.front());
  const bool between = steps_ % options_.control_interval != 0;  // two decisions
  if (profiler_ && (!std::exchange(began_, true) || !between))
    profile_if_due(parts.front(), closure, /*also_if_restored=*/!between);
  if (probe_ && control_->probe_due(steps_)) probe(parts.front(), closure);
  for (;;) {
    ran_ = plan_for(samples);
    ClosureBatch batch(parts, closure, device_);
    try {
      run(batch);
      samples_of_step_ = samples;
      return;
    } catch (const OutOfMemory& error) {
      if (shrink(ran_)) continue;
      const std::int64_t least = std::min(samples, options_.smallest_pass);
      throw OutOfMemory(text(error.what(), "; not even passes of ", least, " sample",
                             least == 1 ? "" : "s", " fit", room_text()));
    }
  }
}

std::string AttachedTraining::room_text() const {
  const std::string taken = byte_text(gauge_.used());
  const std::string where = options_.budget_bytes > 0
                                ? text(" in ", byte_text(options_.budget_bytes), ", of which ")
                                : std::string(" on the device, of which ");
  return text(where, taken,
              " are taken between steps. Raise the budget, keep activations 'lossless' or "
              "'offloaded', or the optimizer's state in 8 bits or in host memory");
}

bool AttachedTraining::shrink(const StepPlan& failed) {
  ++interval_retries_;
  const std::optional<StepPlan> smaller = control_->out_of_memory(failed);
  if (!smaller || smaller->micro_batch_size >= failed.micro_batch_size) return false;
  plan_.micro_batch_size = smaller->micro_batch_size;
  // A batch larger than the first may be the first one that does not fit.
  plan_.batch_size = std::max(plan_.batch_size, failed.batch_size);
  notices_.push_back(text("out of memory: passes of ", plan_.micro_batch_size,
                          " samples instead of ", failed.micro_batch_size));
  return true;
}

bool AttachedTraining::take_back() {
  runner_->take_back();
  gauge_.release_cache();
  return shrink(ran_);
}

void AttachedTraining::finish_step(double learning_rate) {
  learning_rate_ = learning_rate;
  ++steps_;
  ++interval_steps_;
  samples_ += samples_of_step_;
  interval_samples_ += samples_of_step_;
  interval_largest_ = std::max(interval_largest_, samples_of_step_);
  if (!decides() || steps_ % options_.control_interval != 0) return;
  if (options_.precision == LayerPrecision::Auto && !options_.optimizer)
    runner_->measure_gradients();
  decide();
}

void AttachedTraining::decide() {
  report();
  decided_ = pending_.take();
  Decision decision = control_->next(*decided_, plan_);
  for (std::string& event : decision.events) events_.push_back(std::move(event));
  if (holds_precision_)
    for (std::size_t i = 0; i < plan_.layers.size(); ++i)
      decision.plan.layers[i].compute = plan_.layers[i].compute;
  plan_ = std::move(decision.plan);
}

void AttachedTraining::enter_precision() {
  require(!own_pass_, "precision", "is entered already");
  LayerExecution* const layers = runner_->forward_rules().layers;
  if (layers == nullptr) return;
  layers->follow(plan_.layers, /*passes=*/2);  // gradients in FP32
  own_pass_ = std::make_unique<PlannedPass>(*layers);
}

void AttachedTraining::leave_precision() { own_pass_.reset(); }

void AttachedTraining::enter_activations() {
  require(!keeps_own_, "activations", "are entered already");
  StepPlan plan = plan_;
  if (!knows_saved_) plan.saved.clear();  // of a state: of tensors that are not known yet
  runner_->activations().follow(plan, std::max<std::int64_t>(1, plan.batch_size));
  own_saved_ = runner_->activations().begin_pass();
  keeps_own_ = true;
}

void AttachedTraining::leave_activations() {
  if (!std::exchange(keeps_own_, false)) return;
  own_saved_.reset();
  runner_->activations().end_pass();
  runner_->activations().note_counts();
}

void AttachedTraining::profile(std::int64_t samples, const ClosureBatch::Closure& closure) {
  if (!control_) start(samples);
  if (profiler_) profile_if_due(samples, closure, /*also_if_restored=*/true);
}

void AttachedTraining::finish_own_step(std::int64_t samples, const at::Tensor& mean_loss) {
  if (!control_) start(samples);
  runner_->add_loss(mean_loss, samples);
  samples_of_step_ = samples;
  finish_step();
}

PassSample AttachedTraining::measure_step(std::int64_t pass, std::int64_t passes,
                                          const ClosureBatch::Closure& closure) {
  StepPlan plan = plan_;
  plan.batch_size = pass * passes;
  plan.micro_batch_size = pass;
  PassSample sample{.samples = pass};
  for (int i = 0; i < 2; ++i) {  // the first one sets libraries up
    gauge_.release_cache();
    gauge_.reset_peak();
    const Stopwatch watch;
    ClosureBatch batch(plan.batch_size, closure, device_);
    runner_->run(plan, batch, /*learning_rate=*/0);
    synchronize(device_);
    sample.seconds = watch.seconds() / static_cast<double>(passes);
    runner_->take_back();
  }
  sample.bytes = static_cast<double>(gauge_.counted_peak());
  return sample;
}

std::vector<MemoryPlan> AttachedTraining::memory_plans(std::int64_t samples,
                                                       const ClosureBatch::Closure& closure) {
  require(!options_.optimizer, "memory_plan", "is for steps that are not captured");
  const std::int64_t least = kLeastPlannedPasses * options_.smallest_pass;
  require(samples >= least, "memory_plan", "needs a batch of at least ", least, " samples, got ",
          samples);
  if (!control_) start(samples);
  if (profiler_ && !knows_saved_) profile_if_due(samples, closure, /*also_if_restored=*/false);
  gauge_.release_cache();
  MemoryCosts costs{.weights = gauge_.used()};
  for (const bool whole : {true, false}) {
    const auto fixed = static_cast<double>(costs.weights);
    std::optional<PassCost> cost = measure_passes(whole ? 1 : 2, samples / 2, fixed, closure);
    if (!cost) continue;
    cost->activations = format_of(options_.activations.keep);
    cost->whole = whole;
    costs.passes.push_back(*cost);
  }
  gauge_.release_cache();
  gauge_.reset_peak();
  if (costs.passes.empty())
    throw OutOfMemory(text("[memory_plan] not even passes of ", options_.smallest_pass, " fit"));
  return triaccel::memory_plans(costs, {.batch = samples,
                                        .smallest_pass = options_.smallest_pass,
                                        .batch_norm = options_.smallest_pass > 1});
}

std::optional<PassCost> AttachedTraining::measure_passes(std::int64_t passes, std::int64_t most,
                                                         double fixed_bytes,
                                                         const ClosureBatch::Closure& closure) {
  for (std::int64_t size = most; size >= options_.smallest_pass; size /= 2) {
    try {
      const PassSample large = measure_step(size, passes, closure);
      const std::int64_t less = std::max(options_.smallest_pass, size / 4);
      return less < size ? line_through(measure_step(less, passes, closure), large, fixed_bytes)
                         : only_size(large, fixed_bytes);
    } catch (const OutOfMemory&) {
      gauge_.release_cache();
    }
  }
  return {};
}

std::optional<MemoryPlan> AttachedTraining::best_plan(std::int64_t samples,
                                                      const ClosureBatch::Closure& closure) {
  if (samples < kLeastPlannedPasses * options_.smallest_pass) return {};
  try {
    return plan_memory(memory_plans(samples, closure), planned_share(options_.budget_bytes));
  } catch (const OutOfMemory&) {
    return {};
  }
}

StepReport AttachedTraining::report() {
  StepReport report = runner_->collect();
  report.step = steps_;
  report.samples = samples_;
  report.learning_rate = learning_rate_;
  report.curvature = std::exchange(curvature_, std::nullopt);
  report.interval_steps = std::exchange(interval_steps_, 0);
  report.interval_samples = std::exchange(interval_samples_, 0);
  report.largest_step = std::exchange(interval_largest_, 0);
  report.memory_retries = std::exchange(interval_retries_, 0);
  if (control_ && control_->activations()) control_->activations()->complete(report);
  report.seconds = interval_.restart();
  gauge_.reset_peak();
  uncounted_skips_ += report.skipped_steps;
  pending_.add(report);
  return report;
}

std::vector<StateView> AttachedTraining::state() {
  report();  // what was measured since the last decision goes into the state, too
  std::vector<StateView> all = runner_->gradient_control().state();
  const auto append = [&](std::vector<StateView> more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  append({number_state<std::int64_t>(kCounters, {steps_, samples_, first_samples_})});
  append(pending_.state());
  if (SavedStore* const store = runner_->saved())
    append({number_state<std::int64_t>(kCompressedPasses, {store->passes().item<std::int64_t>()})});
  if (probe_) append(probe_->state());
  if (control_) {
    append(control_->state());
    append(plan_state(plan_));
  }
  return all;
}

void AttachedTraining::restore(const StateMap& saved) {
  runner_->gradient_control().restore(saved);
  const auto counters = numbers_from<std::int64_t>(saved, kCounters);
  if (counters.size() < 2) throw StorageError("the state of attach has too few counters");
  if (probe_) probe_->restore(saved);
  steps_ = counters[0];
  samples_ = counters[1];
  pending_ = {};
  if (saved.contains("interval")) pending_.restore(saved);
  if (SavedStore* const store = runner_->saved();
      store != nullptr && saved.contains(kCompressedPasses))
    store->passes().fill_(numbers_from<std::int64_t>(saved, kCompressedPasses, 1).front());
  if (!holds_plan(saved)) return;
  StepPlan plan = plan_from(saved, std::ssize(kinds_));
  // The rules start from the first plan, whatever it has become since.
  plan_ = starting_plan();
  start(counters.size() > 2 ? counters[2] : plan.batch_size);
  control_->restore(saved);
  if (!profiler_) {  // the plan was for a session that keeps activations another way
    plan.saved.clear();
    for (LayerPlan& layer : plan.layers) layer.saved = ActivationFormat::Raw;
  }
  plan_ = std::move(plan);
  knows_saved_ = began_ = false;
  runner_->start_interval();
}

}  // namespace triaccel
