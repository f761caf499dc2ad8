#include "triaccel/policies/compression/activation_policy.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/policies/compression/codec_rules.h"

namespace triaccel {
namespace {

constexpr const char* kPendingState = "saved.pending";  // whom the noise is for
constexpr const char* kNoiseState = "saved.noise";      // as noise_numbers() has it
constexpr const char* kScheduleState = "saved.schedule";

constexpr int kMostCorrections = 8;  // of plans whose error is not what was predicted

bool are_lossy(const std::vector<SavedPlan>& plans) {
  return std::ranges::any_of(plans, [](const SavedPlan& plan) { return is_lossy(plan.codec); });
}

/// Of compression, of mini-batches, the error, and for every layer variance and square.
std::vector<double> noise_numbers(const CompressionNoise& noise) {
  std::vector<double> numbers = {noise.compression_variance, noise.batch_variance, noise.error};
  for (const LayerCompressionNoise& layer : noise.layers)
    numbers.insert(numbers.end(), {layer.variance, layer.square});
  return numbers;
}

CompressionNoise noise_from(const std::vector<double>& numbers) {
  if (numbers.size() < 3 || numbers.size() % 2 == 0)
    throw StorageError(text("the checkpoint's state '", kNoiseState, "' has another size"));
  CompressionNoise noise{
      .compression_variance = numbers[0], .batch_variance = numbers[1], .error = numbers[2]};
  for (std::size_t i = 3; i < numbers.size(); i += 2)
    noise.layers.push_back({numbers[i], numbers[i + 1]});
  return noise;
}

bool is_finite(const CompressionNoise& noise) {
  return std::isfinite(noise.compression_variance) && std::isfinite(noise.batch_variance);
}

// Of the bytes that a pass keeps: those of a profile do not lie next to gradients of a whole pass.
constexpr double kProfileShare = 1.5;

}  // namespace

std::int64_t profile_samples(std::int64_t pass, double ratio) {
  const double most = kProfileShare * static_cast<double>(pass) / ratio;
  const auto* const fitting = std::ranges::find_if(
      kProfileSizes, [&](std::int64_t size) { return static_cast<double>(size) <= most; });
  return fitting == kProfileSizes.end() ? kProfileSizes.back() : *fitting;
}

ActivationPolicy::ActivationPolicy(const ActivationOptions& options)
    : options_(options), policy_(options.compression), schedule_(options.profile_every) {}

bool ActivationPolicy::profile_due(std::int64_t step) const {
  return policy_.lossy() && (policy_.outdated() || schedule_.due(step));
}

ProfileRequest ActivationPolicy::start_profile(std::int64_t step, const StepPlan& plan,
                                               bool restored) {
  // Also of a new ratio: noise can grow a thousandfold where a fourth fewer bytes should double it,
  // and one lower ratio may not be enough.
  const bool adapts = options_.compression.loop.adapt;
  session_ = {.step = step,
              .restored = restored,
              .asks_noise = adapts,
              .ratio_before = adapts ? policy_.ratio_before_rise() : 0,
              .noise_before = noise_};
  const bool by_ratio = options_.compression.mode == CompressionMode::Ratio;
  return {.kind = ProfileKind::Values,
          .error_gains = policy_.error_bound() > 0,
          .samples = by_ratio ? profile_samples(plan.micro_batch_size, policy_.orders().ratio)
                              : kProfileSamples};
}

std::optional<ProfileRequest> ActivationPolicy::take(const ActivationProfile& found, StepPlan& plan,
                                                     PolicyEvents& events) {
  std::optional<ProfileRequest> next;
  switch (found.kind) {
    case ProfileKind::Values:
      next = take_values(found, plan);
      break;
    case ProfileKind::Noise:
      next = session_.trial ? end_trial(found, plan) : take_noise(found, plan);
      break;
    case ProfileKind::Tensors:
      next = take_tensors(found, plan);
      break;
  }
  if (!next) std::ranges::move(std::exchange(session_.events, {}), std::back_inserter(events));
  return next;
}

std::optional<ProfileRequest> ActivationPolicy::take_values(const ActivationProfile& found,
                                                            StepPlan& plan) {
  census_ = found.census;
  tensors_ = found.tensors;
  policy_.forget_other_tensors(tensors_);
  if (session_.restored) {
    plans_.clear();
    for (const SavedStatistics& tensor : tensors_)
      if (plan.saved.size() == census_.entries.size())
        plans_.push_back(plan.saved[static_cast<std::size_t>(tensor.entry)]);
    return {};
  }
  schedule_.start(session_.step);
  put(plan, session_.events);
  if (policy_.orders().ratio <= session_.ratio_before) session_.ratio_before = 0;  // too few bits
  if (policy_.lossy() && (session_.asks_noise || policy_.error_bound() > 0)) return ask_noise();
  return {};
}

std::optional<ProfileRequest> ActivationPolicy::ask_noise() const {
  if (!are_lossy(plans_)) return {};
  return ProfileRequest{.kind = ProfileKind::Noise};
}

std::optional<ProfileRequest> ActivationPolicy::take_noise(const ActivationProfile& found,
                                                           StepPlan& plan) {
  if (!found.failure.empty()) {
    session_.events.push_back("could not measure compression noise: " + found.failure);
    if (session_.ratio_before > 0) return back_off(plan, /*all_the_way=*/true);
    return {};
  }
  noise_ = found.noise;
  noise_unreported_ = noise_pending_ = true;
  const double over_target = policy_.noise_over_target(noise_);
  if (session_.ratio_before > 0 && over_target > 1) {
    session_.events.clear();
    return back_off(plan, /*all_the_way=*/session_.corrections++ > 0);
  }
  if (policy_.can_fall() && std::isfinite(noise_.batch_variance) && noise_.batch_variance > 0)
    schedule_.found(over_target, session_.step);
  if (policy_.error_bound() == 0)
    return policy_.tensors_due(session_.step) ? ask_tensors() : try_layers(plan);
  if (session_.corrections == kMostCorrections) {
    session_.events.push_back(text("the relative squared error of the gradient is ", noise_.error,
                                   ", above its bound of ", policy_.error_bound()));
    return {};
  }
  if (!policy_.correct(noise_.error, session_.corrections == 0)) return {};
  session_.events.clear();
  put(plan, session_.events);
  ++session_.corrections;
  return ask_noise();
}

std::optional<ProfileRequest> ActivationPolicy::back_off(StepPlan& plan, bool all_the_way) {
  policy_.back_off(session_.ratio_before, all_the_way, session_.events);
  put(plan, session_.events);
  if (!all_the_way) return ask_noise();
  noise_ = session_.noise_before;
  noise_unreported_ = noise_pending_ = false;
  return {};
}

std::optional<ProfileRequest> ActivationPolicy::ask_tensors() {
  if (!is_finite(noise_)) return {};
  session_.lone = lone_plans(tensors_, plans_);
  if (session_.lone.empty()) return {};
  policy_.tensors_were_measured(session_.step);
  ProfileRequest request{.kind = ProfileKind::Tensors};
  for (const LonePlan& lone : session_.lone)
    request.plans.push_back(plans_by_entry(census_, tensors_, lone.plans));
  return request;
}

std::optional<ProfileRequest> ActivationPolicy::take_tensors(const ActivationProfile& found,
                                                             StepPlan& plan) {
  if (!found.failure.empty()) {
    session_.events.push_back("could not measure the error of each activation: " + found.failure);
    session_.lone.clear();
    return try_layers(plan);
  }
  Trial before{policy_, plans_, plan, {}};
  if (policy_.learn_tensors(tensors_, session_.lone, found.errors))
    return start_trial(std::move(before), plan);
  session_.lone.clear();
  return try_layers(plan);
}

std::optional<ProfileRequest> ActivationPolicy::try_layers(StepPlan& plan) {
  if (!is_finite(noise_)) return {};
  policy_.learn(noise_, tensors_, plans_);
  Trial before{policy_, plans_, plan, {}};
  policy_.calibrate();
  return start_trial(std::move(before), plan);
}

std::optional<ProfileRequest> ActivationPolicy::start_trial(Trial trial, StepPlan& plan) {
  session_.trial = std::move(trial);
  const bool fits = put(plan, session_.trial->events);
  if (!fits || plans_ == session_.trial->plans) return end_trial({}, plan);
  return ProfileRequest{.kind = ProfileKind::Noise};
}

std::optional<ProfileRequest> ActivationPolicy::end_trial(const ActivationProfile& found,
                                                          StepPlan& plan) {
  Trial trial = *std::exchange(session_.trial, {});
  const bool measured = found.kind == ProfileKind::Noise && found.failure.empty();
  if (!found.failure.empty())
    session_.events.push_back("could not measure compression noise: " + found.failure);
  const bool by_tensor = !session_.lone.empty();
  if (measured && NoiseCalibration::pays(noise_, found.noise)) {
    session_.events.push_back(
        text("reallocated bit widths by the ",
             by_tensor ? "error that each activation causes" : "noise of each layer",
             ": the relative squared error of the gradient falls from ", noise_.error, " to ",
             found.noise.error));
    std::ranges::move(trial.events, std::back_inserter(session_.events));
    noise_ = found.noise;
    if (by_tensor && session_.corrections == 0) policy_.accept_tensors(session_.events);
    return {};
  }
  policy_ = std::move(trial.policy);
  plans_ = std::move(trial.plans);
  plan = std::move(trial.step);
  session_.lone.clear();
  return by_tensor ? try_layers(plan) : std::nullopt;
}

bool ActivationPolicy::put(StepPlan& plan, PolicyEvents& events) {
  const std::int64_t samples = plan.micro_batch_size;
  const bool on_trial = session_.trial.has_value();
  bool fits = true;
  if (options_.fixed.codec != SavedCodec::Raw) {
    plans_ = uniform_plans(tensors_, options_.fixed, samples);
  } else {
    const bool same_tensors = plans_.size() == tensors_.size();
    const auto previous =
        same_tensors ? std::span<const SavedPlan>(plans_) : std::span<const SavedPlan>();
    SavedDecision decision = on_trial ? policy_.plan_at_ratio(tensors_, samples, previous)
                                      : policy_.plan(tensors_, samples, previous);
    std::ranges::move(decision.events, std::back_inserter(events));
    plans_ = std::move(decision.plans);
    fits = !on_trial || decision.fits;
  }
  put_saved_plans(plan, census_, tensors_, plans_);
  return fits;
}

void ActivationPolicy::apply(const StepReport& report, StepPlan& plan, PolicyEvents& events) {
  const std::int64_t mismatches = report.saved ? report.saved->mismatches : 0;
  if (mismatches > 0 && mismatches != mismatches_told_)
    events.push_back(
        text(mismatches, " saved tensors differ from the profiled ones and are not compressed"));
  if (report.saved) mismatches_told_ = mismatches;
  if (!policy_.lossy()) return;
  const bool measured =
      std::exchange(noise_unreported_, false) && std::isfinite(noise_.batch_variance);
  const double compression_noise = std::isfinite(noise_.compression_variance)
                                       ? noise_.compression_variance
                                       : std::numeric_limits<double>::infinity();
  // A dynamic loss scale overflows now and then by design.
  const bool scale_overflowed = report.loss_scale > 1 && report.nonfinite_losses == 0;
  const bool skipped = report.skipped_steps > 0 && !scale_overflowed;
  policy_.tick({.step = report.step,
                .compression_noise = measured ? compression_noise : kUnmeasured,
                .batch_noise = measured ? noise_.batch_variance : kUnmeasured,
                .loss = report.loss,
                .nonfinite = skipped || report.saved_nonfinite > 0},
               events);
  // Other orders, other plans: at once where values do not matter, else after a profile. What was
  // measured before is not stored with a run, so a resumed one could not decide from it the same.
  if (policy_.outdated() && policy_.orders().lossless) put(plan, events);
}

void ActivationPolicy::after_rollback(std::int64_t step, StepPlan& plan, PolicyEvents& events) {
  if (!policy_.lossy()) return;
  policy_.tick({.step = step, .nonfinite = true}, events);
  if (policy_.outdated() && policy_.orders().lossless) put(plan, events);
}

void ActivationPolicy::after_epoch(double accuracy, PolicyEvents& events) {
  if (policy_.lossy()) policy_.epoch({.accuracy = accuracy}, events);
}

void ActivationPolicy::complete(StepReport& report) {
  if (std::exchange(noise_pending_, false)) report.compression_noise = noise_;
}

std::vector<StateView> ActivationPolicy::state() const {
  std::vector<StateView> all = policy_.state();
  all.push_back(number_state<double>(kPendingState,
                                     {noise_unreported_ ? 1.0 : 0.0, noise_pending_ ? 1.0 : 0.0}));
  all.push_back(number_state(kNoiseState, noise_numbers(noise_)));
  all.push_back(schedule_.state(kScheduleState));
  return all;
}

void ActivationPolicy::restore(const StateMap& saved) {
  auto pending = numbers_from<double>(saved, kPendingState);
  if (pending.size() == 3)  // written by a version that began with the highest learning rate
    pending.erase(pending.begin());
  else
    pending = numbers_from<double>(saved, kPendingState, 2);
  const CompressionNoise noise = noise_from(numbers_from<double>(saved, kNoiseState));
  ProfileSchedule schedule(options_.profile_every);
  schedule.restore(saved, kScheduleState);
  policy_.restore(saved);
  schedule_ = schedule;
  assign_numbers(pending, noise_unreported_, noise_pending_);
  noise_ = noise;
}

}  // namespace triaccel
