#include "triaccel/trainer/int8/int8_training.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/base/version.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/int8/products/product.h"
#include "triaccel/int8/training/step_memory.h"
#include "triaccel/policies/zeroth_order/elastic_boundary.h"
#include "triaccel/telemetry/records/efficiency_score.h"
#include "triaccel/trainer/config/config_text.h"
#include "triaccel/trainer/config/run_schedule.h"
#include "triaccel/trainer/int8/int8_weights.h"
#include "triaccel/trainer/loop/training_loop.h"

namespace triaccel {
namespace {

constexpr const char* kWeights = "weights.safetensors";
constexpr const char* kTrainer = "trainer.safetensors";

Int8Data load(const RunConfig& config) {
  set_threads(static_cast<int>(config.device.threads));
  return load_int8_data(int8_data_options(config));
}

StepPlan plan_of(const RunConfig& config, const int8::Network& network,
                 const int8::StepOptions& step) {
  StepPlan plan{.batch_size = config.train.batch * config.train.accumulate,
                .layers = {network.layers.size(), LayerPlan{.compute = Precision::Int8}}};
  plan.micro_batch_size = step.micro_batch > 0
                              ? std::min<std::int64_t>(step.micro_batch, plan.batch_size)
                              : plan.batch_size;
  set_boundary(plan, step.bp_layers);
  return plan;
}

}  // namespace

double int8_nats(std::int64_t loss) {
  return static_cast<double>(loss) * std::numbers::ln2 / 65536;
}

Int8Training::Int8Training(const RunConfig& config, const TrainingHooks& hooks)
    : config_(config),
      hooks_(hooks),
      data_(load(config)),
      sampler_(data_.split.training, static_cast<std::uint64_t>(config.train.seed)),
      state_(int8::initial_state(int8_network_for(config, data_),
                                 static_cast<std::uint64_t>(config.train.seed))),
      options_(int8_options(config, state_.network, sampler_.samples_per_epoch())),
      total_samples_(schedule_of(config, sampler_.samples_per_epoch()).total_samples),
      plan_(plan_of(config, state_.network, options_.step)),
      order_(c10::kCUDA),
      watchdog_(config.run.watchdog_seconds, hooks.on_hang) {
  if (!config.model.init_from.empty()) load_int8_weights(state_, config.model.init_from);
  progress_.early_stopping.patience = config.train.patience;
  choose_device_for_steps();
}

/// "auto" takes what a GPU cannot do to the CPU.
void Int8Training::choose_device_for_steps() {
  const std::string& wanted = config_.device.device;
  if (!choose_device(wanted).is_cuda()) return;
  try {
    device_ = std::make_unique<Int8Device>(data_, state_.network, options_.at(state_.step),
                                           plan_.batch_size);
  } catch (const UsageError& error) {
    if (wanted == "cuda") throw;
    data_.notices.push_back(text("integers train on the CPU here: ", error.what()));
  }
}

RunInfo Int8Training::info() const {
  RunInfo info{.run = config_.run.name,
               .method = config_.train.method,
               .model = config_.model.name,
               .data = config_.data.name,
               .device = device_text(device()),
               .commit = std::string(build_commit()),
               .seed = static_cast<std::uint64_t>(config_.train.seed),
               .epochs = static_cast<double>(total_samples_) /
                         static_cast<double>(sampler_.samples_per_epoch()),
               .training_samples = sampler_.samples_per_epoch(),
               .total_samples = total_samples_,
               .first_step = progress_.step};
  for (const int8::Layer& layer : state_.network.layers) info.layer_names.push_back(layer.name);
  return info;
}

double Int8Training::epoch_now() const {
  return static_cast<double>(progress_.samples) / static_cast<double>(sampler_.samples_per_epoch());
}

bool Int8Training::finished() const {
  return progress_.stopped_early || progress_.step >= options_.total_steps;
}

RunSummary Int8Training::run(CheckpointStore* store) {
  for (Sink* sink : hooks_.sinks) {
    sink->start(info());
    for (const std::string& message : data_.notices) sink->notice(message);
    sink->notice(text("integer kernel ",
                      device_ ? "cuda" : int8::find_product_kernel(options_.step.kernel)->name));
    sink->plan(progress_.step, plan_);
  }
  seconds_before_ = progress_.seconds;
  session_.restart();
  interval_.restart();
  while (!finished()) {
    watchdog_.enter("step");
    const std::int64_t epoch = sampler_.epoch();
    one_step();
    const bool end_of_epoch = sampler_.epoch() != epoch;
    const bool stop = hooks_.stop_requested && hooks_.stop_requested();
    const std::int64_t every = config_.run.checkpoint_every;
    const bool due = stop || (every > 0 ? progress_.step % every == 0 : end_of_epoch);
    if (due || end_of_epoch || finished() || progress_.step % config_.train.control_interval == 0)
      report_interval();
    if (end_of_epoch) {
      progress_.finish_epoch();
      if (!finished())
        progress_.stopped_early =
            progress_.early_stopping.should_stop_after(evaluate_split(has_validation()).loss);
    }
    if (finished()) break;  // saved below, once evaluated
    if (due) save(store);
    if (stop) {
      fetch_state();
      return summary("interrupted", {});
    }
  }
  if (has_validation() && !progress_.stopped_early) evaluate_split(/*validation=*/true);
  const EvaluationReport last = evaluate_split(/*validation=*/false);
  save(store);
  return summary(progress_.stopped_early ? "stopped early" : "finished", last);
}

void Int8Training::one_step() {
  std::int64_t wanted =
      std::min(plan_.batch_size, sampler_.samples_per_epoch() - sampler_.cursor());
  if (config_.train.steps == 0) wanted = std::min(wanted, total_samples_ - progress_.samples);
  const int8::StepOptions now = options_.at(static_cast<std::uint64_t>(progress_.step));
  if (device_)
    device_->step(state_, order_.upcoming(sampler_, wanted), now);
  else
    note(int8::train_step(state_, batch_.gather(data_.train, sampler_.upcoming(wanted)), now,
                          arena_));
  sampler_.take(wanted);
  progress_.step += 1;
  progress_.samples += wanted;
  interval_steps_ += 1;
  interval_samples_ += wanted;
}

void Int8Training::note(const int8::StepReport& report) {
  slopes_.push_back(static_cast<std::int8_t>(report.slope));
  interval_correct_ += report.correct;
  interval_loss_ += (int8_nats(report.loss[0]) + int8_nats(report.loss[1])) / 2;
}

void Int8Training::fetch_state() {
  if (device_) device_->fetch(state_);
}

void Int8Training::report_interval() {
  if (interval_steps_ == 0) return;
  if (device_)
    for (const int8::StepReport& report : device_->take_reports()) note(report);
  watchdog_.alive();
  const auto samples = static_cast<double>(interval_samples_);
  StepReport report{.step = progress_.step,
                    .samples = progress_.samples,
                    .epoch = epoch_now(),
                    .interval_steps = std::exchange(interval_steps_, 0),
                    .interval_samples = std::exchange(interval_samples_, 0),
                    .seconds = interval_.restart() - std::exchange(seconds_not_training_, 0),
                    .loss = std::exchange(interval_loss_, 0) / samples,
                    .accuracy = static_cast<double>(std::exchange(interval_correct_, 0)) / samples};
  // What a weight moves by on average for each unit of noise; backpropagation counts in bits.
  if (int8::streams_of(state_.network, options_.step).perturbed())
    report.learning_rate =
        std::ldexp(1.0, -options_.at(static_cast<std::uint64_t>(progress_.step)).rate_exponent);
  const std::int64_t peak = own_bytes() + data_bytes();
  report.memory = {.used = peak, .peak = peak, .reserved = peak};
  const auto purpose = [&](MemoryPurpose which) -> std::int64_t& {
    return report.memory.peak_by_purpose[static_cast<std::size_t>(which)];
  };
  purpose(MemoryPurpose::Weights) = state_.network.weight_bytes;
  purpose(MemoryPurpose::Activations) = own_bytes() - state_.network.weight_bytes;
  purpose(MemoryPurpose::Data) = data_bytes();
  progress_.peak_bytes = std::max(progress_.peak_bytes, peak);
  progress_.peak_reserved_bytes = progress_.peak_bytes;
  progress_.largest_batch = plan_.batch_size;
  progress_.epoch_seconds += report.seconds;
  progress_.seconds = seconds_before_ + session_.seconds();
  for (Sink* sink : hooks_.sinks) sink->interval(report, plan_);
}

int8::Evaluation Int8Training::evaluated(bool validation, std::span<const std::int64_t> ids) {
  if (device_) return device_->evaluate(state_, /*test=*/!validation, ids);
  int8::Evaluation sum;
  const auto size = static_cast<std::size_t>(plan_.batch_size);  // needs no more than a step does
  for (std::size_t at = 0; at < ids.size(); at += size) {
    const auto part = ids.subspan(at, std::min(size, ids.size() - at));
    const int8::Batch batch = batch_.gather(validation ? data_.train : data_.test, part);
    const int8::Evaluation found = int8::evaluate(state_, batch, options_.step, arena_);
    sum.correct += found.correct;
    sum.loss += found.loss;
    watchdog_.alive();
  }
  return sum;
}

EvaluationReport Int8Training::evaluate_split(bool validation) {
  watchdog_.enter("evaluation");
  const Stopwatch watch;
  std::vector<std::int64_t> ids = data_.split.validation;
  if (!validation) {
    ids.resize(static_cast<std::size_t>(data_.test.count));
    std::iota(ids.begin(), ids.end(), std::int64_t{0});
  }
  const int8::Evaluation sum = evaluated(validation, ids);
  const auto count = static_cast<double>(ids.size());
  const EvaluationReport report{.step = progress_.step,
                                .epoch = epoch_now(),
                                .split = validation ? "validation" : "test",
                                .samples = static_cast<std::int64_t>(ids.size()),
                                .loss = int8_nats(sum.loss) / count,
                                .accuracy = static_cast<double>(sum.correct) / count,
                                .seconds = watch.seconds()};
  seconds_not_training_ += report.seconds;
  if (validation == has_validation())
    progress_.best_accuracy = std::max(progress_.best_accuracy, report.accuracy);
  for (Sink* sink : hooks_.sinks) sink->evaluation(report);
  return report;
}

std::int64_t Int8Training::own_bytes() const {
  return device_ ? device_->bytes() : state_.network.weight_bytes + arena_.high_water();
}

std::int64_t Int8Training::data_bytes() const {
  return data_.train.bytes() + data_.test.bytes() + batch_.bytes();
}

RunSummary Int8Training::summary(std::string status,
                                 const std::optional<EvaluationReport>& last) const {
  const std::vector<double>& epochs = progress_.last_epoch_seconds;
  const double epoch_total = std::accumulate(epochs.begin(), epochs.end(), 0.0);
  std::int64_t parameters = 0;
  for (const int8::Layer& layer : state_.network.layers) parameters += layer.weight_count();
  RunSummary summary{
      .status = std::move(status),
      .method = config_.train.method,
      .model = config_.model.name,
      .data = config_.data.name,
      .device = device_text(device()),
      .commit = std::string(build_commit()),
      .seed = static_cast<std::uint64_t>(config_.train.seed),
      .accuracy = last ? 100 * last->accuracy : std::nan(""),
      .loss = last ? last->loss : std::nan(""),
      .best_accuracy = 100 * progress_.best_accuracy,
      .epochs = epoch_now(),
      .seconds = seconds_before_ + session_.seconds(),
      .seconds_per_epoch = epochs.empty() ? progress_.epoch_seconds
                                          : epoch_total / static_cast<double>(epochs.size()),
      .samples = progress_.samples,
      .steps = progress_.step,
      .peak_bytes = progress_.peak_bytes,
      .peak_reserved_bytes = progress_.peak_reserved_bytes,
      .data_bytes = data_bytes(),
      .predicted_bytes =
          device_ ? device_->bytes()
                  : int8::step_memory(state_.network, static_cast<std::int32_t>(plan_.batch_size),
                                      options_.step)
                        .total(),
      .batch_final = plan_.batch_size,
      .batch_largest = progress_.largest_batch,
      .parameters = parameters};
  summary.score = efficiency_score(summary);
  return summary;
}

void Int8Training::save(CheckpointStore* store) {
  if (store == nullptr) return;
  watchdog_.enter("save");
  fetch_state();
  progress_.seconds = seconds_before_ + session_.seconds();
  const Stopwatch watch;
  CheckpointFile weights{.name = kWeights, .tensors = int8_state_views(state_)};
  CheckpointFile trainer{.name = kTrainer, .tensors = progress_.state()};
  for (StateView& view : sampler_.state()) trainer.tensors.push_back(view);
  trainer.tensors.push_back(number_state<std::uint8_t>("slopes", {slopes_.begin(), slopes_.end()}));
  const SavedCheckpoint saved = store->save({.step = progress_.step,
                                             .config_hash = config_hash(config_),
                                             .commit = std::string(build_commit()),
                                             .torch_version = ""},
                                            std::array{weights, trainer});
  for (const std::string& message : saved.notices)
    for (Sink* sink : hooks_.sinks) sink->notice(message);
  seconds_not_training_ += watch.seconds();
}

void Int8Training::restore(const LoadedCheckpoint& checkpoint) {
  if (checkpoint.info.config_hash != config_hash(config_) || !checkpoint.files.contains(kWeights) ||
      !checkpoint.files.contains(kTrainer))
    throw StorageError(text("the checkpoint of step ", checkpoint.info.step,
                            " was made under another configuration than this run's config.toml; "
                            "was that file edited?"));
  const StateMap& trainer = checkpoint.files.at(kTrainer);
  restore_int8_state(state_, checkpoint.files.at(kWeights));
  if (device_) device_->forget();
  progress_.restore(trainer);
  sampler_.restore(trainer);
  const auto slopes = numbers_from<std::uint8_t>(trainer, "slopes", progress_.step);
  slopes_.assign(slopes.begin(), slopes.end());
}

}  // namespace triaccel
