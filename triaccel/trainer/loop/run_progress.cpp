#include "triaccel/trainer/loop/run_progress.h"

#include <cmath>
#include <numeric>
#include <utility>

namespace triaccel {
namespace {

constexpr const char* kIntervalState = "interval";
constexpr const char* kIntervalLargest = "interval/largest_step";
constexpr const char* kIntervalMeans = "interval/means";

/// The mean over both parts; a part without a finite loss does not count, as within one.
double joined_mean(double a, std::int64_t samples_of_a, double b, std::int64_t samples_of_b) {
  if (samples_of_a == 0 || !std::isfinite(a)) return b;
  if (samples_of_b == 0 || !std::isfinite(b)) return a;
  const auto first = static_cast<double>(samples_of_a), second = static_cast<double>(samples_of_b);
  return (a * first + b * second) / (first + second);
}

}  // namespace

std::vector<StateView> RunProgress::state() const {
  return {number_state<std::int64_t>("progress/counters",
                                     {step, samples, skipped_steps, memory_retries, peak_bytes,
                                      peak_reserved_bytes, largest_batch, plan_changes,
                                      curvature_probes, rollbacks, std::int64_t{stopped_early},
                                      early_stopping.evaluations_since_best, decide_again_at}),
          number_state<double>("progress/measures", {seconds, epoch_seconds, control_seconds,
                                                     best_accuracy, early_stopping.best_loss}),
          number_state<double>("progress/last_epoch_seconds", last_epoch_seconds)};
}

void RunProgress::restore(const StateMap& saved) {
  const auto counters = numbers_from<std::int64_t>(saved, "progress/counters", 13);
  const auto measures = numbers_from<double>(saved, "progress/measures", 5);
  last_epoch_seconds = numbers_from<double>(saved, "progress/last_epoch_seconds");
  assign_numbers(counters, step, samples, skipped_steps, memory_retries, peak_bytes,
                 peak_reserved_bytes, largest_batch, plan_changes, curvature_probes, rollbacks,
                 stopped_early, early_stopping.evaluations_since_best, decide_again_at);
  assign_numbers(measures, seconds, epoch_seconds, control_seconds, best_accuracy,
                 early_stopping.best_loss);
}

void PendingInterval::add(const StepReport& report) {
  StepReport before = std::exchange(so_far_, report);
  so_far_.loss =
      joined_mean(before.loss, before.interval_samples, report.loss, report.interval_samples);
  so_far_.accuracy = joined_mean(before.accuracy, before.interval_samples, report.accuracy,
                                 report.interval_samples);
  so_far_.saved_nonfinite += before.saved_nonfinite;
  if (!so_far_.curvature) so_far_.curvature = std::move(before.curvature);
  if (!so_far_.compression_noise) so_far_.compression_noise = std::move(before.compression_noise);
  so_far_.interval_steps += before.interval_steps;
  so_far_.interval_samples += before.interval_samples;
  so_far_.largest_step = std::max(so_far_.largest_step, before.largest_step);
  so_far_.seconds += before.seconds;
  so_far_.skipped_steps += before.skipped_steps;
  so_far_.nonfinite_losses += before.nonfinite_losses;
  so_far_.memory_retries += before.memory_retries;
  so_far_.memory.peak = std::max(so_far_.memory.peak, before.memory.peak);
  so_far_.memory.reserved = std::max(so_far_.memory.reserved, before.memory.reserved);
  if (before.skipped_layer >= 0) so_far_.skipped_layer = before.skipped_layer;
}

std::vector<StateView> PendingInterval::state() const {
  return {
      number_state<std::int64_t>(
          kIntervalState, {so_far_.interval_steps, so_far_.interval_samples, so_far_.skipped_steps,
                           so_far_.skipped_layer, so_far_.memory_retries, so_far_.memory.peak,
                           so_far_.memory.reserved, so_far_.nonfinite_losses}),
      number_state<std::int64_t>(kIntervalLargest, {so_far_.largest_step}),
      number_state<double>(kIntervalMeans, {so_far_.loss, so_far_.accuracy,
                                            static_cast<double>(so_far_.saved_nonfinite)})};
}

void PendingInterval::restore(const StateMap& saved) {
  const auto numbers = numbers_from<std::int64_t>(saved, kIntervalState, 8);
  so_far_ = {};
  assign_numbers(numbers, so_far_.interval_steps, so_far_.interval_samples, so_far_.skipped_steps,
                 so_far_.skipped_layer, so_far_.memory_retries, so_far_.memory.peak,
                 so_far_.memory.reserved, so_far_.nonfinite_losses);
  if (saved.contains(kIntervalLargest))  // not in checkpoints of earlier versions
    so_far_.largest_step = numbers_from<std::int64_t>(saved, kIntervalLargest, 1).front();
  if (!saved.contains(kIntervalMeans)) return;  // written by a version that did not join these
  const auto means = numbers_from<double>(saved, kIntervalMeans, 3);
  assign_numbers(means, so_far_.loss, so_far_.accuracy, so_far_.saved_nonfinite);
}

RunSummary run_summary(const RunConfig& config, const RunInfo& info, const RunProgress& progress,
                       const StepPlan& plan, const ActivationPolicy* activations,
                       std::string status, const std::optional<EvaluationReport>& last) {
  const std::vector<double>& epochs = progress.last_epoch_seconds;
  const double epoch_total = std::accumulate(epochs.begin(), epochs.end(), 0.0);
  const double share_of_epoch =
      static_cast<double>(progress.samples) / static_cast<double>(info.training_samples);
  const auto layers_in = [&](Precision precision) {
    return std::ranges::count(plan.layers, precision, &LayerPlan::compute);
  };
  RunSummary summary{
      .status = std::move(status),
      .method = config.train.method,
      .model = info.model,
      .stem = config.model.name.starts_with("resnet") ? std::string(config.model.stem.name()) : "",
      .data = config.data.name,
      .device = info.device,
      .device_type = info.device_type,
      .commit = info.commit,
      .seed = static_cast<std::uint64_t>(config.train.seed),
      .accuracy = last ? 100 * last->accuracy : std::nan(""),
      .loss = last ? last->loss : std::nan(""),
      .best_accuracy = 100 * progress.best_accuracy,
      .epochs = share_of_epoch,
      .seconds = progress.seconds,
      .seconds_per_epoch = epochs.empty() ? progress.epoch_seconds / share_of_epoch
                                          : epoch_total / static_cast<double>(epochs.size()),
      .samples = progress.samples,
      .steps = progress.step,
      .peak_bytes = progress.peak_bytes,
      .peak_reserved_bytes = progress.peak_reserved_bytes,
      .budget_bytes = info.budget_bytes,
      .batch_final = plan.batch_size,
      .batch_largest = progress.largest_batch,
      .skipped_steps = progress.skipped_steps,
      .memory_retries = progress.memory_retries,
      .rollbacks = progress.rollbacks,
      .plan_changes = progress.plan_changes,
      .curvature_probes = progress.curvature_probes,
      .control_seconds = progress.control_seconds,
      .layers_fp32 = layers_in(Precision::Fp32),
      .layers_bf16 = layers_in(Precision::Bf16),
      .layers_fp16 = layers_in(Precision::Fp16)};
  if (last) {
    summary.class_names = last->class_names;
    for (std::size_t i = 0; i < last->class_names.size(); ++i)
      summary.class_accuracies.push_back(100 * class_accuracy(*last, i));
  }
  if (activations != nullptr) {
    const CompressionNoise& noise = activations->noise();
    if (!noise.layers.empty())
      summary.compression_noise = noise.compression_variance / noise.batch_variance;
    summary.compression_noise_by_layer = noise.shares();
  }
  return summary;
}

}  // namespace triaccel
