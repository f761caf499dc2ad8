#include "triaccel/policies/compression/compression_policy.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "triaccel/base/error.h"
#include "triaccel/policies/compression/codec_rules.h"
#include "triaccel/policies/compression/predicted_error.h"
#include "triaccel/policies/memory/held_bytes.h"

namespace triaccel {
namespace {

constexpr const char* kPlanned = "compression/planned";
constexpr const char* kTensorSketches = "compression/sketches";
constexpr const char* kLearnt = "compression/layers_learnt";
constexpr const char* kCalibration = "compression/layers";
constexpr const char* kSensitivities = "compression/tensors";
constexpr const char* kMeasured = "compression/tensors_measured";

// Steps until tensors are measured first, and how many times as many until they are again.
constexpr std::int64_t kFirstMeasured = 100, kNextMeasured = 10;

// Bits by which minimum widths may be lowered: a ViT with three fewer trained as well as without
// compression, one with five fewer did not train.
constexpr int kMostLowered = 3;
constexpr double kLowerRatio = 1 / 1.08;  // of the one before, until no more are lowered

const CompressionOptions& checked(const CompressionOptions& options) {
  check_options(options);
  return options;
}

}  // namespace

CompressionPolicy::CompressionPolicy(const CompressionOptions& options)
    : options_(checked(options)), loop_(first_state(options.loop)) {}

void CompressionPolicy::tick(const CompressionTick& tick, PolicyEvents& events) {
  loop_ = after_tick(loop_, tick, options_.loop, events);
}

void CompressionPolicy::epoch(const CompressionEpoch& epoch, PolicyEvents& events) {
  loop_ = after_epoch(loop_, epoch, options_.loop, events);
}

bool CompressionPolicy::lossy() const {
  return options_.mode == CompressionMode::Ratio || options_.mode == CompressionMode::Error;
}

double CompressionPolicy::error_bound() const {
  return options_.mode == CompressionMode::Error ? error_bound_of(loop_, options_.error_bound) : 0;
}

double CompressionPolicy::ratio_before_rise() const {
  const bool rises = options_.mode == CompressionMode::Ratio && planned_.ratio > 0 &&
                     wanted().ratio > planned_.ratio;
  return rises ? planned_.ratio : 0;
}

void CompressionPolicy::back_off(double ratio, bool all_the_way, PolicyEvents& events) {
  loop_ = after_failed_rise(loop_, ratio, all_the_way, options_.loop, events);
}

double CompressionPolicy::noise_over_target(const CompressionNoise& noise) const {
  return triaccel::noise_over_target(noise.compression_variance, noise.batch_variance,
                                     options_.loop);
}

bool CompressionPolicy::correct(double measured_error, bool may_grow) {
  if (options_.mode != CompressionMode::Error) return false;
  const double before = error_scale_;
  error_scale_ = corrected_scale(before, measured_error, error_bound(), may_grow);
  return error_scale_ != before;
}

void CompressionPolicy::learn(const CompressionNoise& measured,
                              std::span<const SavedStatistics> tensors,
                              std::span<const SavedPlan> plans) {
  learnt_.add(measured, sensitivities_.applied(tensors),
              predicted_errors(tensors, plans, planned_.drop_price));
}

bool CompressionPolicy::tensors_due(std::int64_t step) const {
  return options_.mode == CompressionMode::Ratio && options_.loop.adapt &&
         step >= std::max(kFirstMeasured, kNextMeasured * tensors_measured_);
}

bool CompressionPolicy::learn_tensors(std::span<const SavedStatistics> tensors,
                                      std::span<const LonePlan> lone,
                                      std::span<const double> errors) {
  if (!sensitivities_.learn(tensors, lone, errors)) return false;
  learnt_ = calibration_ = {};
  planned_ = {};
  return true;
}

void CompressionPolicy::forget_other_tensors(std::span<const SavedStatistics> tensors) {
  if (!sensitivities_.are_of_others(tensors)) return;
  sensitivities_ = {};
  learnt_ = calibration_ = {};
  tensors_measured_ /= kNextMeasured / 2;
}

void CompressionPolicy::calibrate() {
  calibration_ = learnt_;
  planned_ = {};
}

CompressionPolicy::Planned CompressionPolicy::wanted() const {
  const CompressionOrders orders = this->orders();
  if (!lossy() || orders.lossless) return {};
  return {orders.ratio, kDropPrice, error_scale_ * error_bound()};
}

bool CompressionPolicy::can_fall() const {
  const LoopOptions& loop = options_.loop;
  return loop.adapt && loop_.bytes < loop.target_ratio / loop.least_ratio;
}

bool CompressionPolicy::guards_bits() const {
  return options_.mode == CompressionMode::Ratio && options_.loop.adapt;
}

SavedDecision CompressionPolicy::plan(std::span<const SavedStatistics> tensors,
                                      std::int64_t samples, std::span<const SavedPlan> previous) {
  return plan_within(tensors, samples, previous, /*may_lower_ratio=*/true);
}

SavedDecision CompressionPolicy::plan_at_ratio(std::span<const SavedStatistics> tensors,
                                               std::int64_t samples,
                                               std::span<const SavedPlan> previous) {
  return plan_within(tensors, samples, previous, /*may_lower_ratio=*/false);
}

SavedDecision CompressionPolicy::plan_within(std::span<const SavedStatistics> tensors,
                                             std::int64_t samples,
                                             std::span<const SavedPlan> previous,
                                             bool may_lower_ratio) {
  Planned wanted = this->wanted();
  if (wanted == Planned{}) {
    SavedDecision decision{.plans = options_.mode == CompressionMode::Off
                                        ? std::vector<SavedPlan>(tensors.size())
                                    : options_.mode == CompressionMode::Offload
                                        ? offload_plans(tensors, options_.offload_share)
                                        : lossless_plans(tensors),
                           .errors = std::vector<double>(tensors.size(), 0.0)};
    decision.bytes = held_bytes(tensors, decision.plans, samples);
    planned_ = {};
    return decision;
  }
  PlanRequest request{.samples = samples,
                      .budget_bytes = budget_for(tensors, wanted.ratio, samples),
                      .drop_price = wanted.drop_price,
                      .error_bound = wanted.error_bound,
                      .previous = previous};
  if (guards_bits() && !may_lower_ratio) request.most_lowered = kMostLowered;
  if (wanted == planned_ && !previous.empty()) request.keep = unchanged_tensors(sketches_, tensors);
  const auto weighted = calibration_.calibrated(sensitivities_.applied(tensors));
  SavedDecision decision = plan_saved(weighted, request, options_.codecs);
  if (decision.lowered > kMostLowered && lower_ratio(decision, weighted, request))
    wanted = this->wanted();
  sketches_.resize(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (request.keep.empty() || !request.keep[i]) sketches_[i] = sketch_of(tensors[i]);
  planned_ = wanted;
  return decision;
}

bool CompressionPolicy::lower_ratio(SavedDecision& decision,
                                    std::span<const SavedStatistics> tensors, PlanRequest request) {
  const double asked = orders().ratio, least = std::min(asked, options_.loop.least_ratio);
  if (!guards_bits() || asked <= least) return false;
  double ratio = asked;
  request.keep.clear();
  while (decision.lowered > kMostLowered && ratio > least) {
    ratio = std::max(least, ratio * kLowerRatio);
    request.budget_bytes = budget_for(tensors, ratio, request.samples);
    decision = plan_saved(tensors, request, options_.codecs);
  }
  PolicyEvents events;
  loop_ = after_too_few_bits(loop_, ratio, options_.loop, events);
  decision.events.insert(decision.events.begin(), events.begin(), events.end());
  return true;
}

std::vector<StateView> CompressionPolicy::state() const {
  std::vector<StateView> state = compression_state(loop_);
  std::vector<float> values;
  for (const SavedSketch& sketch : sketches_)
    values.insert(values.end(), sketch.values.begin(), sketch.values.end());
  state.push_back(number_state(kTensorSketches, values));
  state.push_back(number_state<double>(
      kPlanned, {planned_.ratio, planned_.drop_price, planned_.error_bound, error_scale_}));
  state.push_back(learnt_.state(kLearnt));
  state.push_back(calibration_.state(kCalibration));
  std::ranges::move(sensitivities_.state(kSensitivities), std::back_inserter(state));
  state.push_back(number_state<std::int64_t>(kMeasured, {tensors_measured_}));
  return state;
}

void CompressionPolicy::restore(const StateMap& saved) {
  const CompressionState loop = compression_from(saved);
  const auto planned = numbers_from<double>(saved, kPlanned, 4);
  const auto values = numbers_from<float>(saved, kTensorSketches);
  constexpr std::size_t kPerSketch = std::tuple_size_v<decltype(SavedSketch::values)>;
  if (values.size() % kPerSketch != 0)
    throw StorageError(text("the checkpoint's state '", kTensorSketches, "' has another size"));
  NoiseCalibration learnt, calibration;
  learnt.restore(saved, kLearnt);
  calibration.restore(saved, kCalibration);
  TensorSensitivities sensitivities;
  sensitivities.restore(saved, kSensitivities);
  const std::int64_t measured =
      saved.contains(kMeasured) ? numbers_from<std::int64_t>(saved, kMeasured, 1)[0] : 0;
  sensitivities_ = sensitivities;
  tensors_measured_ = measured;
  learnt_ = learnt;
  calibration_ = calibration;
  loop_ = loop;
  planned_ = {planned[0], planned[1], planned[2]};
  error_scale_ = planned[3];
  sketches_.assign(values.size() / kPerSketch, {});
  for (std::size_t i = 0; i < values.size(); ++i)
    sketches_[i / kPerSketch].values[i % kPerSketch] = values[i];
}

}  // namespace triaccel
