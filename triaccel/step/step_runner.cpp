#include "triaccel/step/step_runner.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/base/random.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/ops/loss_data/cross_entropy.h"

namespace triaccel {
namespace {

std::vector<ParameterRef> with_float_buffers(const StepNetwork& network) {
  std::vector<ParameterRef> all = network.parameters;
  for (std::size_t i = 0; i < network.buffers.size(); ++i)
    if (network.buffers[i].scalar_type() == at::kFloat)
      all.push_back({text("buffer.", i), network.buffers[i], 0});
  return all;
}

/// The samples of every forward pass of a step. Those of a part are of equal size, give or take
/// one, and never of a single sample unless asked for: batch norm has no variance to offer there.
std::vector<std::int64_t> pass_sizes(const std::vector<std::int64_t>& parts,
                                     std::int64_t micro_batch) {
  std::vector<std::int64_t> sizes;
  for (const std::int64_t samples : parts) {
    std::int64_t passes = divide_up(samples, micro_batch);
    if (micro_batch > 1) passes = std::min(passes, std::max<std::int64_t>(1, samples / 2));
    for (std::int64_t pass = 0; pass < passes; ++pass)
      sizes.push_back(samples / passes + (pass < samples % passes ? 1 : 0));
  }
  return sizes;
}

/// Of all that shapes a step except what lies in device memory.
std::uint64_t step_key(const StepPlan& plan, std::uint64_t batch, std::int64_t samples) {
  return mixed_hash(mixed_hash(shape_hash(plan), batch), static_cast<std::uint64_t>(samples));
}

}  // namespace

StepRunner::StepRunner(StepNetwork network, const StepRunnerOptions& options, MemoryGauge& gauge,
                       c10::Device device)
    : network_(std::move(network)),
      options_(options),
      loss_{.own = options.loss, .label_smoothing = options.label_smoothing},
      device_(device),
      gauge_(gauge),
      gradients_(options.gradients, network_.parameters, network_.layer_count),
      execution_(make_step_execution(options.graphs && device.is_cuda() && can_capture())),
      snapshot_(network_.buffers, device),
      inputs_(network_.layer_count, options.zeroth_order.has_value(), device),
      activations_(options.saved, constants_of(network_), device) {
  MemoryPurposeScope purpose(MemoryPurpose::Optimizer);
  if (options.weight_average_decay > 0)
    average_ = std::make_unique<WeightAverage>(
        WeightAverageOptions{.decay = options.weight_average_decay}, with_float_buffers(network_));
  score_ = make_running_score(device);
  score_before_ = make_running_score(device);
  if (options.layers)
    layers_ = std::make_unique<LayerExecution>(
        network_.weights, options.layers->kernels, gradients_.layer_scales(),
        LayerExecutionOptions{.device_has_bf16 = options.layers->device_has_bf16,
                              .fuse = options.layers->fuse && device.is_cuda(),
                              // A norm's input may come back changed: no mask is recomputed from
                              // it.
                              .keep_relu_masks = options.saved && !options.saved->exact,
                              .branches = !options.saved && options.layers->recompute_segments == 0,
                              .prepare_weights = device.is_cuda() && options.layers->copy_weights,
                              .recompute_norms = options.layers->recompute_norms});
  if (options.layers) install_saved_tensor_engine();  // as forward_pass() needs it
  if (options.layers && options.layers->recompute_segments > 0) {
    require(!options.saved, "StepRunner", "segments are recomputed from inputs kept as they are");
    segments_ = std::make_unique<RecomputedSegments>(
        device,
        RecomputedSegments::Execution{.finish = [this] { layers_->finish_deferred(); },
                                      .again = layers_->again()},
        options.layers->recompute_segments);
  }
  if (options.leave_gradients) {
    require(!options.zeroth_order, "StepRunner", "zeroth-order layers leave no gradients");
    strategy_ = std::make_unique<LeftGradients>();
    return;
  }
  if (options.zeroth_order) {
    require(!options.layers && !options.autocast, "StepRunner",
            "layers trained by zeroth-order estimates compute in FP32");
    auto elastic = std::make_unique<ElasticOptimizer>(options.optimizer, network_.parameters);
    strategy_ =
        std::make_unique<ZerothOrderGradients>(*options.zeroth_order, options.frozen_head,
                                               network_.parameters, gradients_, *elastic, device);
    optimizer_ = std::move(elastic);
  } else {
    optimizer_ = options.own_optimizer;
    if (!optimizer_) optimizer_ = make_optimizer(options.optimizer, network_.parameters);
    std::unique_ptr<EarlyUpdates> early;
    SideStreams* const side = execution_->side_streams();
    if (side != nullptr && layers_ && options.gradients.clip_norm == 0 &&
        !options.gradients.loss_scaling)
      early = std::make_unique<EarlyUpdates>(*layers_, gradients_, *optimizer_, side->updates,
                                             inputs_.learning_rates(), network_.parameters);
    strategy_ = std::make_unique<BackpropGradients>(gradients_, *optimizer_, std::move(early));
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

at::Tensor StepRunner::loss_scale() const {
  return options_.gradients.loss_scaling ? gradients_.loss_scale() : at::Tensor();
}

void StepRunner::probe_saved(const StepPlan& plan, StepBatch& batch,
                             const std::function<void(const SavedProbe&)>& probe) {
  require(activations_.store() != nullptr, "StepRunner",
          "to profile saved activations, set StepRunnerOptions::saved");
  if (layers_) layers_->follow(plan.layers, /*passes=*/2);  // sums of gradients are in FP32
  try {
    execution_->run_once([&] {
      const ReadingWeights reading(layers_.get());
      probe(SavedProbe(network_, {.forward = forward_rules(), .loss_scale = loss_scale()}, batch));
    });
  } catch (...) {
    gradients_.abandon_step();
    throw;
  }
  gradients_.abandon_step();  // its maxima are no step's
}

std::vector<SavedSample> StepRunner::take_census(const StepPlan& plan, StepBatch& batch) {
  SavedCensus census;
  std::vector<SavedSample> samples;
  probe_saved(plan, batch, [&](const SavedProbe& probe) { census = probe.census(samples); });
  // What is captured follows plans for the census before.
  if (activations_.set_census(std::move(census))) execution_->drop_captured();
  return samples;
}

std::vector<ErrorGain> StepRunner::error_gains(const StepPlan& plan, StepBatch& batch) {
  std::vector<ErrorGain> gains;
  probe_saved(plan, batch, [&](const SavedProbe& probe) { gains = probe.error_gains(census()); });
  return gains;
}

CompressionNoise StepRunner::compression_noise(const StepPlan& plan, StepBatch& batch) {
  CompressionNoise noise;
  probe_saved(plan, batch, [&](const SavedProbe& probe) {
    noise = probe.compression_noise(census(), plan.saved, *options_.saved);
  });
  return noise;
}

std::vector<double> StepRunner::gradient_errors(const StepPlan& plan,
                                                const std::vector<std::vector<SavedPlan>>& saved,
                                                StepBatch& batch) {
  std::vector<double> errors;
  probe_saved(plan, batch, [&](const SavedProbe& probe) {
    errors = probe.gradient_errors(census(), saved, *options_.saved);
  });
  return errors;
}

void StepRunner::divide_layers(const StepPlan& plan) {
  if (!strategy_->follow(plan.layers)) return;
  execution_->drop_captured();  // what is captured updates states where they were
  gauge_.note(MemoryPurpose::Optimizer, optimizer_->state_bytes());
}

void StepRunner::require_all_layers(const StepPlan& plan) const {
  require(plan.layers.size() == static_cast<std::size_t>(network_.layer_count), "StepRunner",
          "the plan has ", plan.layers.size(), " layers, the network ", network_.layer_count);
}

void StepRunner::rehearse(const StepPlan& plan, const Dataset& data, const at::Tensor& ids,
                          const GatherOptions& gather) {
  rehearse(plan, samples_of(data, ids, gather),
           [&](const auto& step) { execution_->run_once([&] { step(Enqueued::Rehearsed); }); });
}

double StepRunner::replay_seconds(const StepPlan& plan, const Dataset& data, const at::Tensor& ids,
                                  const GatherOptions& gather) {
  ensure(execution_->graphs() != nullptr, "steps are captured");
  double seconds = 0;
  rehearse(plan, samples_of(data, ids, gather), [&](const auto& step) {
    snapshot_.take_generators();  // replays draw from them
    seconds = execution_->graphs()->replay_seconds([&] { step(Enqueued::CapturedRehearsal); });
    snapshot_.put_back_generators();
  });
  return seconds;
}

void StepRunner::rehearse(const StepPlan& plan, DatasetBatch batch, const Rehearsal& rehearsal) {
  require_all_layers(plan);
  const std::vector<std::int64_t> passes = pass_sizes(batch.parts(), plan.micro_batch_size);
  prepare(plan, batch, std::ssize(passes), /*learning_rate=*/0, /*zeroth_order_rate=*/0);
  rehearsal([&](Enqueued enqueued) { step(batch, passes, enqueued); });
}

void StepRunner::prepare(const StepPlan& plan, StepBatch& batch, std::int64_t passes,
                         double learning_rate, double zeroth_order_rate) {
  // Gradients of several passes are summed in FP32, which is also how a caller wants them.
  const bool summed = passes > 1 || options_.leave_gradients;
  if (layers_) layers_->follow(plan.layers, summed ? 2 : 1);
  activations_.follow(plan, batch.samples());
  catching_out_of_memory([&] {  // what fails here has changed nothing yet, and what stays must not
                                // lie in the memory of captured steps
    batch.prepare();
    divide_layers(plan);
    set_inputs(plan, batch.ids(), learning_rate, zeroth_order_rate);
  });
}

void StepRunner::run(const StepPlan& plan, const Dataset& data, const at::Tensor& ids,
                     const GatherOptions& gather, double learning_rate, double zeroth_order_rate) {
  DatasetBatch batch = samples_of(data, ids, gather);
  run(plan, batch, learning_rate, zeroth_order_rate);
}

void StepRunner::run(const StepPlan& plan, StepBatch& batch, double learning_rate,
                     double zeroth_order_rate) {
  require(plan.micro_batch_size > 0 && plan.micro_batch_size <= plan.batch_size, "StepRunner::run",
          "micro_batch_size must lie in [1, batch_size ", plan.batch_size, "], got ",
          plan.micro_batch_size);
  require_all_layers(plan);
  const std::int64_t samples = batch.samples();
  const std::vector<std::int64_t> passes = pass_sizes(batch.parts(), plan.micro_batch_size);
  prepare(plan, batch, std::ssize(passes), learning_rate, zeroth_order_rate);
  const auto work = [&](Enqueued enqueued) {
    step(batch, passes, enqueued);
    activations_.note_counts();
  };
  const std::optional<std::uint64_t> key = batch.key();
  if (key && strategy_->can_capture())
    execution_->run(step_key(plan, *key, samples), passes.front(), work, inputs_);
  else
    execution_->run_once([&] { work(Enqueued::Eagerly); });
  strategy_->end_step(zeroth_order_rate * static_cast<double>(plan.learning_rate_scale));
}

void StepRunner::set_inputs(const StepPlan& plan, const at::Tensor& ids, double learning_rate,
                            double zeroth_order_rate) {
  if (inputs_.make_room(ids.numel())) execution_->drop_captured();
  const auto scale = static_cast<double>(plan.learning_rate_scale);
  inputs_.set(plan.layers, ids, scale * learning_rate,
              strategy_->estimates() ? scale * zeroth_order_rate : 0);
}

void StepRunner::step(StepBatch& batch, const std::vector<std::int64_t>& passes,
                      Enqueued enqueued) {
  const bool captured = enqueued == Enqueued::Captured || enqueued == Enqueued::CapturedRehearsal;
  SideStreams* const side = enqueued == Enqueued::Eagerly ? nullptr : execution_->side_streams();
  catching_out_of_memory([&] {
    inputs_.place();
    if (!captured) snapshot_.take_generators();
    snapshot_.take_buffers();
    if (enqueued == Enqueued::Captured) return;
    score_before_.copy_(score_);
    if (SavedStore* const saved = activations_.store()) saved->take_counters();
  });
  const auto let_go = [&] {
    if (side != nullptr) side->abandon();
    drop_gradients();
    activations_.abandon_pass();
    if (layers_) layers_->end_step();
    strategy_->abandon_step(captured);
  };
  const auto put_back = [&] {
    gradients_.abandon_step();
    snapshot_.put_back_buffers();
    if (!captured) snapshot_.put_back_generators();
    put_back_counters();
  };
  try {
    catching_out_of_memory([&] {
      GradientListener* const listener = strategy_->begin_step(std::ssize(passes), enqueued);
      if (layers_) layers_->begin_step(side, listener);
      if (layers_ && passes.size() > 1 && !options_.leave_gradients) layers_->place_sums();
      strategy_->compute(snapshot_, captured, [&](const PassRules& rules) {
        run_passes(batch, passes, rules, captured);
      });
      if (side != nullptr) side->join();
    });
  } catch (...) {
    let_go();
    if (!captured) {  // else nothing has happened
      put_back();
      gauge_.release_cache();
    }
    throw;
  }
  if (has_no_effect(enqueued)) {
    let_go();
    return put_back();
  }
  if (layers_) layers_->end_step();
  if (options_.leave_gradients) return;
  update();  // allocates nothing, so from here on the step cannot fail
  drop_gradients();
}

void StepRunner::measure_gradients() {
  const at::NoGradGuard no_grad;
  gradients_.measure();
  gradients_.finish_step();
}

void StepRunner::add_loss(const at::Tensor& mean_loss, std::int64_t samples) {
  add_measured_loss(score_, mean_loss.detach().to(device_, at::kFloat).reshape({}), samples);
}

void StepRunner::take_back() {
  drop_gradients();
  snapshot_.put_back();
  put_back_counters();
}

void StepRunner::put_back_counters() {
  score_.copy_(score_before_);
  if (SavedStore* const saved = activations_.store()) saved->put_back_counters();
}

void StepRunner::run_passes(StepBatch& batch, const std::vector<std::int64_t>& passes,
                            const PassRules& rules, bool captured) {
  const at::Tensor ids = inputs_.ids();
  const c10::AutoGradMode grad_mode(rules.backward);
  const auto compute = [&](const std::function<at::Tensor()>& forward) {
    const auto planned = [&] {
      std::optional<SegmentScope> segments;
      if (segments_ && rules.backward) {
        segments_->begin_pass(captured);
        segments.emplace(*segments_);
      }
      return forward_pass(forward, device_.type(), forward_rules());
    };
    return rules.backward ? activations_.forward(planned) : planned();
  };
  PassRequest request{.samples = batch.samples(),
                      .backward = rules.backward,
                      .score = rules.score.defined() ? rules.score : score_,
                      .loss_scale = loss_scale(),
                      .compute = compute};
  for (std::int64_t pass = 0; pass < std::ssize(passes); ++pass, request.first += request.count) {
    request.count = passes[static_cast<std::size_t>(pass)];
    if (ids.numel() > 0) request.ids = ids.narrow(0, request.first, request.count);
    if (rules.losses)
      request.losses = [&](std::int64_t rows, std::int64_t classes) {
        return rules.losses(pass, rows, classes);
      };
    const std::int64_t used_before = gauge_.used();
    PassResult result;
    {
      MemoryPurposeScope purpose(MemoryPurpose::Activations);
      result = batch.pass(request);
    }
    if (!rules.backward) continue;
    gauge_.note(MemoryPurpose::Activations, gauge_.used() - used_before);
    MemoryPurposeScope purpose(MemoryPurpose::Gradients);
    strategy_->before_backward();
    result.output.backward(result.gradient);
    activations_.end_pass();
  }
  const bool learns = rules.backward || rules.losses;
  const at::Tensor correction = learns ? batch.correction() : at::Tensor();
  if (!correction.defined()) return;
  if (rules.backward) scale_gradients(correction);
  if (rules.scale_losses) rules.scale_losses(correction);
}

void StepRunner::scale_gradients(const at::Tensor& factor) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const ParameterRef& parameter : network_.parameters)
    if (parameter.tensor.grad().defined()) gradients.push_back(parameter.tensor.grad());
  for (const at::Tensor& other : network_.others)
    if (other.grad().defined()) gradients.push_back(other.grad());
  if (!gradients.empty()) at::_foreach_mul_(gradients, factor);
}

void StepRunner::update() {
  const at::NoGradGuard no_grad;
  strategy_->update(inputs_.learning_rates());
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
  for (const at::Tensor& other : network_.others) other.mutable_grad().reset();
  gauge_.note(MemoryPurpose::Gradients, bytes);
}

void StepRunner::start_interval() {
  score_.zero_();
  strategy_->start_interval();
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
  strategy_->report(report);
  activations_.report(report);
  report.memory = gauge_.read();
  return report;
}

}  // namespace triaccel
