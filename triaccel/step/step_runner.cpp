#include "triaccel/step/step_runner.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/base/mixed_hash.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/ops/compression/predicted_codec.h"
#include "triaccel/ops/loss_data/cross_entropy.h"
#include "triaccel/ops/loss_data/running_score.h"
#include "triaccel/saved/saved_tensor_engine.h"

namespace triaccel {
namespace {

std::vector<ParameterRef> with_float_buffers(const StepNetwork& network) {
  std::vector<ParameterRef> all = network.parameters;
  for (std::size_t i = 0; i < network.buffers.size(); ++i)
    if (network.buffers[i].scalar_type() == at::kFloat)
      all.push_back({text("buffer.", i), network.buffers[i], 0});
  return all;
}

/// How many forward passes a step takes. They are of equal size, give or take one, and never of a
/// single sample unless asked for: batch norm has no variance to offer there.
std::int64_t pass_count(std::int64_t samples, std::int64_t micro_batch) {
  const std::int64_t passes = divide_up(samples, micro_batch);
  return micro_batch == 1 ? passes : std::min(passes, std::max<std::int64_t>(1, samples / 2));
}

/// All that shapes a step beside what device memory says.
struct StepShape {
  std::uint64_t plan;  // shape_hash
  const Dataset* data;
  std::int64_t samples;
  bool augment;
  std::uint64_t seed;
};

std::uint64_t key_of(const StepShape& shape) {
  std::uint64_t key = mixed_hash(shape.plan, reinterpret_cast<std::uintptr_t>(shape.data));
  key = mixed_hash(key, static_cast<std::uint64_t>(shape.samples));
  return mixed_hash(mixed_hash(key, shape.augment), shape.seed);
}

/// Constructs `make()` with its allocations booked as optimizer memory.
template <typename Make>
auto as_optimizer_memory(Make&& make) {
  MemoryPurposeScope purpose(MemoryPurpose::Optimizer);
  return make();
}

}  // namespace

StepRunner::StepRunner(StepNetwork network, const StepRunnerOptions& options, MemoryGauge& gauge,
                       c10::Device device)
    : network_(std::move(network)),
      options_(options),
      gauge_(gauge),
      optimizer_(as_optimizer_memory([&]() -> std::unique_ptr<Optimizer> {
        if (options.zeroth_order)
          return std::make_unique<ElasticOptimizer>(options.optimizer, network_.parameters);
        return make_optimizer(options.optimizer, network_.parameters);
      })),
      gradients_(options.gradients, network_.parameters, network_.layer_count),
      snapshot_(network_.buffers, device),
      inputs_(network_.layer_count, options.zeroth_order.has_value(), device) {
  MemoryPurposeScope purpose(MemoryPurpose::Optimizer);
  if (options.weight_average_decay > 0)
    average_ = std::make_unique<WeightAverage>(
        WeightAverageOptions{.decay = options.weight_average_decay}, with_float_buffers(network_));
  if (options.zeroth_order) {
    require(!options.layers && !options.autocast, "StepRunner",
            "layers trained by the loss alone compute in FP32");
    zeroth_ = std::make_unique<ZerothOrder>(*options.zeroth_order, network_.parameters);
    elastic_ = static_cast<ElasticOptimizer*>(optimizer_.get());
    unscored_ = make_running_score(device);
  }
  score_ = make_running_score(device);
  score_before_ = make_running_score(device);
  if (options.layers)
    layers_ = std::make_unique<LayerExecution>(
        network_.weights, options.layers->kernels, gradients_.layer_scales(),
        LayerExecutionOptions{.device_has_bf16 = options.layers->device_has_bf16,
                              .fuse = device.is_cuda(),
                              // A norm's input may come back from codes: no gate is found from it.
                              .gate_all_norms = options.saved.has_value(),
                              .prepare_weights = device.is_cuda(),
                              .recompute_norms = options.layers->recompute_norms});
  if (options.graphs && device.is_cuda() && can_capture()) {
    side_ = std::make_unique<SideStreams>();
    graphs_ = std::make_unique<GraphCache>(GraphCacheOptions{}, *side_);
    early_ = std::make_unique<EarlyUpdates>(gradients_, *optimizer_, side_->updates,
                                            inputs_.learning_rates(), network_.parameters);
  }
  if (options.saved) {
    install_saved_tensor_engine();
    saved_ = std::make_unique<SavedStore>(*options.saved, constants_of(network_), device);
  }
  gauge_.note(MemoryPurpose::Optimizer, optimizer_->state_bytes());
}

ForwardRules StepRunner::forward_rules() const {
  return {.autocast = options_.autocast,
          .autocast_type = options_.autocast_type,
          .layers = layers_.get()};
}

void StepRunner::follow(const StepPlan& plan) {
  if (layers_) layers_->follow(plan.layers, /*passes=*/1);
}

void StepRunner::follow_saved(const StepPlan& plan) {
  require(plan.saved.empty() || saved_, "StepRunner::run",
          "the plan says how tensors are saved; set StepRunnerOptions::saved");
  keeps_coded_ = !plan.saved.empty();
  if (!keeps_coded_ || plan.saved == saved_by_) return;
  saved_->follow(census_, plan.saved);
  saved_by_ = plan.saved;
}

void StepRunner::probe_saved(const StepPlan& plan, const Dataset& data, const at::Tensor& ids,
                             const std::function<void(const SavedProbe&)>& look) {
  require(saved_ != nullptr, "StepRunner",
          "to look at saved tensors, set StepRunnerOptions::saved");
  if (layers_) layers_->follow(plan.layers, /*passes=*/2);  // sums of gradients are in FP32
  const auto work = [&] {
    const ReadingWeights reading(layers_.get());
    look(SavedProbe(
        network_,
        {.forward = forward_rules(),
         .label_smoothing = options_.label_smoothing,
         .loss_scale = options_.gradients.loss_scaling ? gradients_.loss_scale() : at::Tensor()},
        data, ids));
  };
  try {
    if (graphs_)
      graphs_->run_once(work);
    else
      catching_out_of_memory(work);
  } catch (...) {
    gradients_.abandon_step();
    throw;
  }
  gradients_.abandon_step();  // its maxima are no step's
}

std::vector<SavedSample> StepRunner::take_census(const StepPlan& plan, const Dataset& data,
                                                 const at::Tensor& ids) {
  SavedCensus census;
  std::vector<SavedSample> samples;
  probe_saved(plan, data, ids, [&](const SavedProbe& probe) { census = probe.census(samples); });
  if (census != census_) {  // what is captured follows plans for the one before
    if (graphs_) graphs_->clear();
    saved_by_.clear();
    census_ = std::move(census);
  }
  return samples;
}

std::vector<SavedSample> StepRunner::channel_samples(const StepPlan& plan, const Dataset& data,
                                                     const at::Tensor& ids,
                                                     std::vector<std::int64_t> entries) {
  std::vector<SavedSample> samples;
  probe_saved(plan, data, ids, [&](const SavedProbe& probe) {
    samples = probe.channel_samples(std::move(entries));
  });
  return samples;
}

std::vector<ErrorGain> StepRunner::error_gains(const StepPlan& plan, const Dataset& data,
                                               const at::Tensor& ids) {
  std::vector<ErrorGain> gains;
  probe_saved(plan, data, ids,
              [&](const SavedProbe& probe) { gains = probe.error_gains(census_); });
  return gains;
}

CodeNoise StepRunner::code_noise(const StepPlan& plan, const Dataset& data, const at::Tensor& ids) {
  CodeNoise noise;
  probe_saved(plan, data, ids, [&](const SavedProbe& probe) {
    noise = probe.code_noise(census_, plan.saved, *options_.saved);
  });
  return noise;
}

void StepRunner::divide_layers(const StepPlan& plan) {
  if (!zeroth_) {
    for (const LayerPlan& layer : plan.layers)
      require(layer.gradient == GradientSource::Backprop, "StepRunner::run",
              "the plan trains layers by the loss alone; set StepRunnerOptions::zeroth_order");
    return;
  }
  const MemoryPurposeScope purpose(MemoryPurpose::Optimizer);
  zeroth_->follow(plan.layers);
  if (!elastic_->follow(plan.layers)) return;
  if (graphs_) graphs_->clear();  // what is captured updates states where they were
  gauge_.note(MemoryPurpose::Optimizer, optimizer_->state_bytes());
}

void StepRunner::require_all_layers(const StepPlan& plan) const {
  require(plan.layers.size() == static_cast<std::size_t>(network_.layer_count), "StepRunner",
          "the plan has ", plan.layers.size(), " layers, the network ", network_.layer_count);
}

void StepRunner::rehearse(const StepPlan& plan, const Dataset& data, const at::Tensor& ids,
                          const GatherOptions& gather) {
  require_all_layers(plan);
  catching_out_of_memory([&] {  // what stays must not lie in the memory of captured steps
    data.enter_epoch(gather);
    divide_layers(plan);
    set_inputs(plan, ids, /*learning_rate=*/0, /*zeroth_order_rate=*/0);
  });
  const auto work = [&] {
    step(pass_count(ids.numel(), plan.micro_batch_size), data, gather, Enqueued::Rehearsed);
  };
  if (graphs_)
    graphs_->run_once(work);
  else
    catching_out_of_memory(work);
}

void StepRunner::run(const StepPlan& plan, const Dataset& data, const at::Tensor& ids,
                     const GatherOptions& gather, double learning_rate, double zeroth_order_rate) {
  require(plan.micro_batch_size > 0 && plan.micro_batch_size <= plan.batch_size, "StepRunner::run",
          "micro_batch_size must lie in [1, batch_size ", plan.batch_size, "], got ",
          plan.micro_batch_size);
  require_all_layers(plan);
  const std::int64_t passes = pass_count(ids.numel(), plan.micro_batch_size);
  if (layers_) layers_->follow(plan.layers, passes);
  follow_saved(plan);
  catching_out_of_memory([&] {  // what fails here has changed nothing yet
    data.enter_epoch(gather);
    divide_layers(plan);
    if (zeroth_ && zeroth_->must_take_steps())
      std::ranges::move(zeroth_->take_steps(), std::back_inserter(steps_taken_));
    set_inputs(plan, ids, learning_rate, zeroth_order_rate);
  });
  last_shape_ = mixed_hash(shape_hash(plan), static_cast<std::uint64_t>(ids.numel()));
  const auto work = [&](Enqueued enqueued) {
    step(passes, data, gather, enqueued);
    if (keeps_coded_) saved_counts_[last_shape_] = saved_->counts();  // a replay changes no size
  };
  if (!graphs_) {
    work(Enqueued::Eagerly);
  } else if (estimates() && draws_.value_or(true)) {
    // The first step shows whether passes draw random numbers; a captured one could not draw the
    // same ones twice.
    graphs_->run_once([&] { work(Enqueued::Eagerly); });
  } else {
    run_captured(plan, data, ids, gather, passes, work);
  }
  if (estimates())
    zeroth_->note_step(zeroth_order_rate * static_cast<double>(plan.learning_rate_scale));
}

void StepRunner::run_captured(const StepPlan& plan, const Dataset& data, const at::Tensor& ids,
                              const GatherOptions& gather, std::int64_t passes,
                              const GraphCache::Work& work) {
  const StepShape shape{.plan = shape_hash(plan),
                        .data = &data,
                        .samples = ids.numel(),
                        .augment = gather.augment,
                        .seed = gather.seed};
  graphs_->run(key_of(shape), divide_up(ids.numel(), passes), work, inputs_.replay_arguments());
}

void StepRunner::set_inputs(const StepPlan& plan, const at::Tensor& ids, double learning_rate,
                            double zeroth_order_rate) {
  if (inputs_.make_room(ids.numel()) && graphs_) graphs_->clear();
  const auto scale = static_cast<double>(plan.learning_rate_scale);
  inputs_.set(plan.layers, ids, scale * learning_rate, estimates() ? scale * zeroth_order_rate : 0);
}

void StepRunner::step(std::int64_t passes, const Dataset& data, const GatherOptions& gather,
                      Enqueued enqueued) {
  const bool captured = enqueued == Enqueued::Captured;
  SideStreams* const side = enqueued == Enqueued::Eagerly ? nullptr : side_.get();
  EarlyUpdates* const early = updates_early(passes, enqueued) ? early_.get() : nullptr;
  catching_out_of_memory([&] {
    inputs_.place();
    if (!captured) snapshot_.take_generators();
    snapshot_.take_buffers();
    if (!captured) score_before_.copy_(score_);
  });
  const auto undo = [&] {
    if (side != nullptr) side->abandon();
    drop_gradients();
    if (keeps_coded_) saved_->abandon_pass();
    if (layers_) layers_->end_step();
    if (estimates()) zeroth_->abandon_step(/*moved=*/!captured);
    if (captured) return;  // nothing has happened
    gradients_.abandon_step();
    snapshot_.put_back();
    score_.copy_(score_before_);
  };
  try {
    catching_out_of_memory([&] {
      if (early != nullptr) early->begin_step(enqueued == Enqueued::Rehearsed);
      if (layers_) layers_->begin_step(side, early);
      const auto run_passes = [&](const PassRules& rules) {
        compute_gradients(passes, data, inputs_.ids(), gather, early, rules);
      };
      if (estimates()) {
        zeroth_->begin_step(passes);
        gather_losses(*zeroth_, snapshot_, captured, !zeroth_->alone(), run_passes);
        if (!captured && !draws_) draws_ = snapshot_.drew();
      } else {
        std::optional<FrozenWeights> frozen;
        if (zeroth_) frozen.emplace(zeroth_->weights());
        run_passes({});
      }
      if (side != nullptr) side->join();
    });
  } catch (...) {
    undo();
    if (!captured) gauge_.release_cache();
    throw;
  }
  if (enqueued == Enqueued::Rehearsed) return undo();
  if (layers_) layers_->end_step();
  update(early);  // allocates nothing, so from here on the step cannot fail
  drop_gradients();
}

bool StepRunner::updates_early(std::int64_t passes, Enqueued enqueued) const {
  return enqueued != Enqueued::Eagerly && layers_ && passes == 1 &&
         options_.gradients.clip_norm == 0 && !options_.gradients.loss_scaling;
}

void StepRunner::compute_gradients(std::int64_t passes, const Dataset& data, const at::Tensor& ids,
                                   const GatherOptions& gather, EarlyUpdates* early,
                                   const PassRules& rules) {
  const std::int64_t samples = ids.numel();
  const at::Tensor& score = rules.scored ? score_ : unscored_;
  const c10::AutoGradMode grad_mode(rules.backward);
  for (std::int64_t pass = 0, first = 0, count = 0; pass < passes; ++pass, first += count) {
    count = samples / passes + (pass < samples % passes ? 1 : 0);
    const std::int64_t used_before = gauge_.used();
    at::Tensor logits, gradient;
    {
      MemoryPurposeScope purpose(MemoryPurpose::Activations);
      const Batch batch = data.gather(ids.narrow(0, first, count), gather);
      {
        std::optional<SavedTensorScope> scope;
        if (keeps_coded_ && rules.backward) {
          saved_->begin_pass();
          scope.emplace(*saved_);
        }
        logits = forward_pass(network_.forward, batch.inputs, forward_rules());
      }
      logits = logits.reshape({-1, logits.size(-1)});
      const at::Tensor labels = batch.targets.reshape({-1}).contiguous();
      const at::Tensor losses =
          rules.losses ? rules.losses(pass, logits.size(0), logits.size(1)) : at::Tensor();
      if (!rules.backward) {
        add_cross_entropy(score, logits.contiguous(), labels, count, options_.label_smoothing,
                          losses);
        continue;
      }
      // Micro-batches add up to the mean over the whole batch; the scale keeps FP16 gradients away
      // from zero and is taken out again by the update.
      const at::NoGradGuard no_grad;
      gradient = cross_entropy_gradient(
          score, logits.detach().contiguous(), labels, count, options_.label_smoothing,
          static_cast<double>(count) / static_cast<double>(samples),
          options_.gradients.loss_scaling ? gradients_.loss_scale() : at::Tensor(), losses);
    }
    gauge_.note(MemoryPurpose::Activations, gauge_.used() - used_before);
    MemoryPurposeScope purpose(MemoryPurpose::Gradients);
    if (early != nullptr) early->allow(layers_->used_each_weight_once());
    logits.backward(gradient);
    if (keeps_coded_) saved_->end_pass();
  }
}

void StepRunner::update(EarlyUpdates* early) {
  const at::NoGradGuard no_grad;
  if (early != nullptr) {
    early->end_backward();
  } else if (estimates()) {
    gradients_.start_gathering();
    gradients_.gather();
    zeroth_->estimate(
        gradients_.update_inputs(inputs_.learning_rates(), UpdateGate::Layer).moments);
    gradients_.decide();
    optimizer_->update(gradients_.update_inputs(inputs_.learning_rates()));
    zeroth_->update(inputs_.learning_rates(), gradients_.step_control());
  } else {
    gradients_.measure();
    optimizer_->update(gradients_.update_inputs(inputs_.learning_rates()));
  }
  if (average_) average_->update(gradients_.step_control());
  gradients_.finish_step();
  snapshot_.put_back_if_skipped(gradients_.step_control());
}

void StepRunner::drop_gradients() {
  std::int64_t bytes = 0;
  for (const ParameterRef& parameter : network_.parameters) {
    at::Tensor& gradient = parameter.tensor.mutable_grad();
    if (gradient.defined()) bytes += static_cast<std::int64_t>(gradient.nbytes());
    gradient.reset();
  }
  gauge_.note(MemoryPurpose::Gradients, bytes);
}

void StepRunner::start_interval() {
  score_.zero_();
  steps_taken_.clear();
  skipped_before_ = gradients_.read().skipped_steps;
}

StepReport StepRunner::collect() {
  const RunningScore score = read_score(score_);
  score_.zero_();
  GradientReport gradients = gradients_.read();
  StepReport report;
  report.loss = score.samples > 0            ? score.loss_sum / static_cast<double>(score.samples)
                : score.nonfinite_losses > 0 ? std::numeric_limits<double>::infinity()
                                             : 0;
  report.accuracy = static_cast<double>(score.correct) /
                    static_cast<double>(std::max<std::int64_t>(1, score.predictions));
  report.gradient_norm = gradients.gradient_norm;
  report.loss_scale = gradients.loss_scale;
  report.skipped_steps =
      gradients.skipped_steps - std::exchange(skipped_before_, gradients.skipped_steps);
  report.consecutive_skips = gradients.consecutive_skips;
  report.skipped_layer = gradients.first_skipped_layer;
  report.nonfinite_losses = score.nonfinite_losses;
  gradients_.clear_diagnosis();
  report.layers = std::move(gradients.layers);
  if (zeroth_) {
    std::ranges::move(zeroth_->take_steps(), std::back_inserter(steps_taken_));
    report.zeroth_order = std::exchange(steps_taken_, {});
  }
  if (keeps_coded_) {
    report.saved = saved_counts_[last_shape_];
    report.saved_nonfinite = saved_->not_finite().item<std::int32_t>();
    saved_->not_finite().zero_();
    if (std::ranges::any_of(saved_by_, [](const SavedPlan& p) { return p.predicted > 0; })) {
      report.predictions = counted_predictions(saved_->predictions());
      saved_->predictions().zero_();
    }
  }
  report.memory = gauge_.read();
  return report;
}

}  // namespace triaccel
