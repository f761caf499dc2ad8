#include "triaccel/trainer/loop/run_compression.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/policies/compression/codec_rules.h"
#include "triaccel/saved/saved_measurement.h"
#include "triaccel/trainer/measure/prediction_cost.h"

namespace triaccel {
namespace {

constexpr const char* kPasses = "saved.passes";
constexpr const char* kPending = "saved.pending";  // highest rate, whom the noise is for
constexpr const char* kNoise = "saved.noise";      // as noise_numbers() has it
constexpr const char* kPredictions = "saved.predictions";

constexpr std::array<std::int64_t, 4> kSampleCounts = {RunCompression::kSamples, 7, 5, 3};

constexpr int kMostCorrections = 8;  // of plans whose error is not what was predicted

CompressionOptions compression_options(const RunConfig::Activations& wanted) {
  CompressionOptions options;
  options.mode = wanted.keep == "compressed" ? CompressionMode::Ratio
                 : wanted.keep == "bounded"  ? CompressionMode::Error
                                             : CompressionMode::Lossless;
  options.error_bound = wanted.error_bound;
  options.loop.adapt = wanted.adapt;
  options.loop.target_ratio = wanted.ratio;
  options.loop.least_ratio = wanted.least_ratio;
  options.loop.guard_points = wanted.guard;
  return options;
}

bool are_lossy(const std::vector<SavedPlan>& plans) {
  return std::ranges::any_of(plans, [](const SavedPlan& plan) { return is_lossy(plan.codec); });
}

/// Codes, batches, error, and for every layer variance and square.
std::vector<double> noise_numbers(const CodeNoise& noise) {
  std::vector<double> numbers = {noise.code_variance, noise.batch_variance, noise.error};
  for (const LayerCodeNoise& layer : noise.layers)
    numbers.insert(numbers.end(), {layer.variance, layer.square});
  return numbers;
}

CodeNoise noise_from(const std::vector<double>& numbers) {
  if (numbers.size() < 3 || numbers.size() % 2 == 0)
    throw StorageError(text("the checkpoint's state '", kNoise, "' has another size"));
  CodeNoise noise{.code_variance = numbers[0], .batch_variance = numbers[1], .error = numbers[2]};
  for (std::size_t i = 3; i < numbers.size(); i += 2)
    noise.layers.push_back({numbers[i], numbers[i + 1]});
  return noise;
}

bool is_finite(const CodeNoise& noise) {
  return std::isfinite(noise.code_variance) && std::isfinite(noise.batch_variance);
}

}  // namespace

SavedStoreOptions saved_store_options(const RunConfig& config) {
  const ActivationRounding rounding = config.activations.rounding;
  // ActNN keeps a tensor as often as it is saved.
  return {.seed = static_cast<std::uint64_t>(config.train.seed),
          .rounding = rounding == ActivationRounding::Dither       ? kernels::Rounding::Dither
                      : rounding == ActivationRounding::Stochastic ? kernels::Rounding::Stochastic
                                                                   : kernels::Rounding::Nearest,
          .share = config.activations.keep != "actnn"};
}

SavedCodec codec_of_others(const std::string& name) {
  for (const SavedCodec codec : {SavedCodec::Bf16, SavedCodec::GroupsActnn, SavedCodec::GroupsGact,
                                 SavedCodec::LowHighSplit})
    if (name_of(codec) == name) return codec;
  return SavedCodec::Raw;
}

RunCompression::RunCompression(const RunConfig& config, RunParts& parts)
    : parts_(parts),
      others_(codec_of_others(config.activations.keep)),
      adapts_(config.activations.adapt),
      look_every_(config.activations.profile_every),
      policy_(compression_options(config.activations)) {
  if (config.activations.prediction == BlockPredictionMode::Auto && policy_.codes())
    prediction_.emplace();
}

bool RunCompression::look_due(std::int64_t step) const {
  return policy_.codes() && (policy_.outdated() || (step > 0 && step % look_every_ == 0));
}

void RunCompression::look(const at::Tensor& ids, StepPlan& plan, PolicyEvents& events) {
  // The noise is asked for by the calendar: what it changes, and only that, brings another look.
  const bool asks_noise = adapts_ && (plans_.empty() || !policy_.outdated());
  const at::Tensor looked = measure(ids, plan);
  PolicyEvents told;
  put(plan, told);
  if (prediction_) {
    test_prediction(looked, plan);
    put_predictions(plan, told);
  }
  if (policy_.codes() && (asks_noise || policy_.error_bound() > 0)) probe_codes(looked, plan, told);
  if (prediction_) time_prediction(plan.micro_batch_size, told);
  std::ranges::move(told, std::back_inserter(events));
}

at::Tensor RunCompression::measure(const at::Tensor& ids, const StepPlan& plan) {
  StepRunner& runner = *parts_.runner;
  for (const std::int64_t count : kSampleCounts) {
    const at::Tensor some = ids.narrow(0, 0, std::min(count, ids.numel()));
    try {
      const auto samples = runner.take_census(plan, *parts_.data.train, some);
      std::vector<SavedStatistics> tensors = tensors_of(runner.census());
      measure_saved(tensors, samples);
      if (policy_.error_bound() > 0)
        measure_gains(tensors, runner.census(), runner.error_gains(plan, *parts_.data.train, some));
      tensors_ = std::move(tensors);
      return some;
    } catch (const OutOfMemory&) {
      parts_.on.gauge.release_cache();
      if (count == kSampleCounts.back()) throw;
    }
  }
  return {};
}

std::optional<CodeNoise> RunCompression::measure_noise(const at::Tensor& ids, const StepPlan& plan,
                                                       PolicyEvents& events) {
  try {
    return parts_.runner->code_noise(plan, *parts_.data.train, ids);
  } catch (const OutOfMemory& error) {
    parts_.on.gauge.release_cache();
    events.push_back(text("what codes add to the gradient was not measured: ", error.what()));
    return {};
  }
}

void RunCompression::probe_codes(const at::Tensor& ids, StepPlan& plan, PolicyEvents& events) {
  for (int corrections = 0; are_lossy(plans_); ++corrections) {
    const std::optional<CodeNoise> noise = measure_noise(ids, plan, events);
    if (!noise) return;
    noise_ = *noise;
    noise_unreported_ = noise_pending_ = true;
    if (policy_.error_bound() == 0) return try_calibration(ids, plan, events);
    if (corrections == kMostCorrections)
      events.push_back(text("codes add ", noise_.error,
                            " of its square to the gradient; the bound ", policy_.error_bound(),
                            " is not met"));
    if (corrections == kMostCorrections || !policy_.correct(noise_.error, corrections == 0)) return;
    events.clear();
    put(plan, events);
  }
}

void RunCompression::try_calibration(const at::Tensor& ids, StepPlan& plan, PolicyEvents& events) {
  if (!is_finite(noise_)) return;
  policy_.learn(noise_, tensors_, plans_);
  const CompressionPolicy policy = policy_;
  const std::optional<BlockPrediction> prediction = prediction_;
  const std::vector<SavedPlan> plans = plans_;
  const StepPlan step = plan;
  policy_.calibrate();
  PolicyEvents told;
  put(plan, told);
  std::optional<CodeNoise> tried;
  if (plans_ != plans) tried = measure_noise(ids, plan, events);
  if (tried && NoiseCalibration::pays(noise_, *tried)) {
    events.push_back(text("bits follow the noise of each layer: the gradient's error falls from ",
                          noise_.error, " to ", tried->error, " of its square"));
    std::ranges::move(told, std::back_inserter(events));
    noise_ = *tried;
    return;
  }
  policy_ = policy;
  prediction_ = prediction;
  plans_ = plans;
  plan = step;
}

void RunCompression::complete(StepReport& report) {
  report.prediction_seconds = prediction_seconds_;
  if (std::exchange(noise_pending_, false)) report.code_noise = noise_;
  predictions_ += report.predictions;
  if (report.saved) predicted_away_bytes_ = report.saved->predicted_away_bytes;
}

void RunCompression::meet(const at::Tensor& ids, const StepPlan& plan) {
  measure(ids, plan);
  plans_.clear();
  for (const SavedStatistics& tensor : tensors_)
    if (plan.saved.size() == parts_.runner->census().entries.size())
      plans_.push_back(plan.saved[static_cast<std::size_t>(tensor.entry)]);
}

void RunCompression::test_prediction(const at::Tensor& ids, const StepPlan& plan) {
  const std::vector<std::size_t> due = prediction_->due(tensors_, plans_);
  if (due.empty()) return;
  std::vector<std::int64_t> entries;
  for (const std::size_t i : due) entries.push_back(tensors_[i].entry);
  std::vector<SavedSample> samples;
  try {
    samples = parts_.runner->channel_samples(plan, *parts_.data.train, ids, entries);
  } catch (const OutOfMemory&) {  // what was found before stays
    parts_.on.gauge.release_cache();
    return;
  }
  std::vector<BlockTest> tests(due.size());
  for (const SavedSample& sample : samples)
    for (std::size_t i = 0; i < due.size(); ++i)
      if (entries[i] == sample.entry) {
        const SavedPlan& kept = plans_[due[i]];
        tests[i] = block_test(measure_prediction(sample, kept), plain_block_bits(kept));
      }
  prediction_->take(due, tests, plans_);
}

void RunCompression::put_predictions(StepPlan& plan, PolicyEvents& events) {
  prediction_->write(tensors_, plan.micro_batch_size, plans_, events);
  put_saved_plans(plan, parts_.runner->census(), tensors_, plans_);
}

void RunCompression::time_prediction(std::int64_t samples, PolicyEvents& events) {
  if (plans_ == timed_plans_) return;
  timed_plans_ = plans_;
  prediction_seconds_ = seconds_saved_by_prediction(tensors_, plans_, samples, parts_.on.device);
  parts_.on.gauge.release_cache();
  if (std::isfinite(prediction_seconds_) && prediction_seconds_ != 0)
    events.push_back(text("predicting blocks takes ", 1e3 * std::abs(prediction_seconds_),
                          " ms a pass ", prediction_seconds_ < 0 ? "more" : "less",
                          " than coding them without"));
}

void RunCompression::put(StepPlan& plan, PolicyEvents& events) {
  const std::int64_t samples = plan.micro_batch_size;
  if (others_ != SavedCodec::Raw) {
    plans_ = uniform_plans(tensors_, {.codec = others_}, samples);
  } else {
    const bool same_tensors = plans_.size() == tensors_.size();
    for (SavedPlan& kept : plans_) kept.predicted = 0;  // decided behind the rest
    SavedDecision decision = policy_.plan(
        tensors_, samples,
        same_tensors ? std::span<const SavedPlan>(plans_) : std::span<const SavedPlan>());
    std::ranges::move(decision.events, std::back_inserter(events));
    plans_ = std::move(decision.plans);
  }
  if (prediction_)
    put_predictions(plan, events);
  else
    put_saved_plans(plan, parts_.runner->census(), tensors_, plans_);
}

void RunCompression::after(const StepReport& report, double progress, StepPlan& plan,
                           PolicyEvents& events) {
  highest_rate_ = std::max(highest_rate_, report.learning_rate);
  if (report.saved && report.saved->mismatches > 0)
    events.push_back(text(report.saved->mismatches,
                          " saved tensors are not those that were planned, and stay raw"));
  if (!policy_.codes()) return;
  const bool measured = std::exchange(noise_unreported_, false) && is_finite(noise_);
  policy_.tick({.step = report.step,
                .code_noise = measured ? noise_.code_variance : kUnmeasured,
                .batch_noise = measured ? noise_.batch_variance : kUnmeasured,
                .loss = report.loss,
                .nonfinite = report.skipped_steps > 0 || report.saved_nonfinite > 0,
                .progress = progress,
                .rate_share = highest_rate_ > 0 ? report.learning_rate / highest_rate_ : 1},
               events);
  // Other orders, other plans: at once where values do not matter, else after a look at them. What
  // was seen before is not stored with a run, so a resumed one could not decide from it the same.
  if (policy_.outdated() && policy_.orders().lossless) put(plan, events);
}

void RunCompression::after_rollback(std::int64_t step, StepPlan& plan, PolicyEvents& events) {
  if (!policy_.codes()) return;
  policy_.tick({.step = step, .nonfinite = true}, events);
  if (policy_.outdated() && policy_.orders().lossless) put(plan, events);
}

void RunCompression::after_epoch(double accuracy, PolicyEvents& events) {
  if (policy_.codes()) policy_.epoch({.accuracy = accuracy}, events);
}

std::vector<StateView> RunCompression::state() const {
  std::vector<StateView> all = policy_.state();
  if (prediction_) std::ranges::move(prediction_->state(), std::back_inserter(all));
  all.push_back(number_state<double>(
      kPending, {highest_rate_, noise_unreported_ ? 1.0 : 0.0, noise_pending_ ? 1.0 : 0.0}));
  all.push_back(number_state(kNoise, noise_numbers(noise_)));
  all.push_back(number_state<std::int64_t>(
      kPredictions, {predictions_.blocks, predictions_.candidates, predictions_.predicted,
                     predictions_.saved_bits, predicted_away_bytes_}));
  all.push_back(
      number_state<std::int64_t>(kPasses, {parts_.runner->saved()->passes().item<std::int64_t>()}));
  return all;
}

void RunCompression::restore(const StateMap& saved) {
  const auto passes = numbers_from<std::int64_t>(saved, kPasses, 1);
  const auto pending = numbers_from<double>(saved, kPending, 3);
  const CodeNoise noise = noise_from(numbers_from<double>(saved, kNoise));
  const auto predictions = numbers_from<std::int64_t>(saved, kPredictions, 5);
  policy_.restore(saved);
  if (prediction_) prediction_->restore(saved);
  highest_rate_ = pending[0];
  noise_unreported_ = pending[1] != 0;
  noise_pending_ = pending[2] != 0;
  noise_ = noise;
  predictions_ = {predictions[0], predictions[1], predictions[2], predictions[3]};
  predicted_away_bytes_ = predictions[4];
  parts_.runner->saved()->passes().fill_(passes.front());
}

}  // namespace triaccel
