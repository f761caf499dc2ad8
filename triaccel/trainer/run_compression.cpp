#include "triaccel/trainer/run_compression.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/policies/codec_rules.h"
#include "triaccel/policies/saved_planner.h"
#include "triaccel/saved/saved_measurement.h"

namespace triaccel {
namespace {

constexpr const char* kPasses = "saved.passes";
constexpr const char* kSketches = "saved.sketches";
constexpr const char* kRate = "saved.pending";  // highest rate, whether to plan anew

/// What other systems do to values; Raw where a name is none of theirs.
SavedCodec codec_of_others(const std::string& name) {
  for (const SavedCodec codec : {SavedCodec::Bf16, SavedCodec::GroupsActnn, SavedCodec::GroupsGact,
                                 SavedCodec::LowHighSplit})
    if (name_of(codec) == name) return codec;
  return SavedCodec::Raw;
}

CompressionOptions compression_options(const RunConfig::Activations& wanted) {
  CompressionOptions options;
  options.mode = wanted.keep == "coded"     ? CompressionMode::Ratio
                 : wanted.keep == "bounded" ? CompressionMode::Error
                                            : CompressionMode::Lossless;
  options.error_bound = wanted.error_bound;
  options.loop.adapt = wanted.adapt;
  options.loop.target_ratio = wanted.ratio;
  options.loop.least_ratio = wanted.least_ratio;
  options.loop.guard_points = wanted.guard;
  check_options(options);
  return options;
}

}  // namespace

SavedStoreOptions saved_store_options(const RunConfig& config) {
  const std::string& rounding = config.activations.rounding;
  // ActNN keeps a tensor as often as it is saved.
  return {.seed = static_cast<std::uint64_t>(config.train.seed),
          .rounding = rounding == "dither"       ? kernels::Rounding::Dither
                      : rounding == "stochastic" ? kernels::Rounding::Stochastic
                                                 : kernels::Rounding::Nearest,
          .share = config.activations.keep != "actnn"};
}

RunCompression::RunCompression(const RunConfig& config, RunParts& parts)
    : parts_(parts),
      keep_(config.activations.keep),
      look_every_(config.activations.look_every),
      options_(compression_options(config.activations)),
      state_(first_state(options_.loop)),
      orders_(orders_of(state_, options_.loop)) {}

bool RunCompression::look_due(std::int64_t step) const {
  const bool reads_values =
      options_.mode == CompressionMode::Ratio || options_.mode == CompressionMode::Error;
  return reads_values && (replan_ || (step > 0 && step % look_every_ == 0));
}

void RunCompression::look(const at::Tensor& ids, StepPlan& plan, PolicyEvents& events) {
  const auto samples = parts_.runner->take_census(plan, *parts_.data.train, ids);
  tensors_ = tensors_of(parts_.runner->census());
  measure_saved(tensors_, samples);
  unmoved_ = unmoved_tensors(sketches_, tensors_);
  if (std::exchange(replan_, false)) unmoved_.assign(tensors_.size(), false);
  put(plan, events);
}

void RunCompression::meet(const at::Tensor& ids, const StepPlan& plan) {
  const auto samples = parts_.runner->take_census(plan, *parts_.data.train, ids);
  const SavedCensus& census = parts_.runner->census();
  tensors_ = tensors_of(census);
  measure_saved(tensors_, samples);
  unmoved_.assign(tensors_.size(), true);
  plans_.clear();
  for (const SavedStatistics& tensor : tensors_)
    if (plan.saved.size() == census.entries.size())
      plans_.push_back(plan.saved[static_cast<std::size_t>(tensor.entry)]);
}

std::vector<SavedPlan> RunCompression::planned(const StepPlan& plan, PolicyEvents& events) const {
  std::vector<SavedPlan> plans = lossless_plans(tensors_);
  if (const SavedCodec others = codec_of_others(keep_); others != SavedCodec::Raw) {
    for (std::size_t i = 0; i < plans.size(); ++i)
      if (keeps_values(tensors_[i].kind) && can_code(tensors_[i], plan.micro_batch_size))
        plans[i] = {.codec = others};
    return plans;
  }
  if (options_.mode == CompressionMode::Lossless || orders_.lossless) return plans;
  const bool bounded = options_.mode == CompressionMode::Error;
  const bool same_tensors = plans_.size() == tensors_.size();
  SavedDecision decision = plan_saved(
      tensors_,
      {.samples = plan.micro_batch_size,
       .budget_bytes = budget_for(tensors_, orders_.ratio, plan.micro_batch_size),
       .drop_price = orders_.drop_price,
       .error_bound = bounded ? error_bound_of(state_, options_.error_bound) : 0,
       .previous = same_tensors ? std::span<const SavedPlan>(plans_) : std::span<const SavedPlan>(),
       .keep = same_tensors && unmoved_.size() == plans_.size() ? unmoved_ : std::vector<bool>()},
      options_.codecs);
  std::ranges::move(decision.events, std::back_inserter(events));
  return decision.plans;
}

void RunCompression::put(StepPlan& plan, PolicyEvents& events) {
  std::vector<SavedPlan> plans = planned(plan, events);
  sketches_.resize(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (i >= unmoved_.size() || !unmoved_[i]) sketches_[i] = sketch_of(tensors_[i]);
  plans_ = std::move(plans);
  put_saved_plans(plan, parts_.runner->census(), tensors_, plans_);
}

void RunCompression::after(const StepReport& report, double progress, StepPlan& plan,
                           PolicyEvents& events) {
  highest_rate_ = std::max(highest_rate_, report.learning_rate);
  if (report.saved && report.saved->mismatches > 0)
    events.push_back(text(report.saved->mismatches,
                          " saved tensors are not those that were planned, and stay raw"));
  state_ = after_tick(state_,
                      {.step = report.step,
                       .loss = report.loss,
                       .nonfinite = report.skipped_steps > 0 || report.saved_nonfinite > 0,
                       .progress = progress,
                       .rate_share = highest_rate_ > 0 ? report.learning_rate / highest_rate_ : 1},
                      options_.loop, events);
  const CompressionOrders orders = orders_of(state_, options_.loop);
  if (orders == std::exchange(orders_, orders)) return;
  // Other orders, other plans: at once where values do not matter, else after a look at them. What
  // was seen before is not stored with a run, so a resumed one could not decide from it the same.
  replan_ = !orders_.lossless;
  if (orders_.lossless) put(plan, events);
}

void RunCompression::after_epoch(double accuracy, PolicyEvents& events) {
  state_ = triaccel::after_epoch(state_, {.accuracy = accuracy}, options_.loop, events);
}

std::vector<StateView> RunCompression::state() const {
  std::vector<StateView> all = compression_state(state_);
  std::vector<float> sketches;
  for (const SavedSketch& sketch : sketches_)
    sketches.insert(sketches.end(), sketch.values.begin(), sketch.values.end());
  all.push_back(number_state(kSketches, sketches));
  all.push_back(number_state<double>(kRate, {highest_rate_, replan_ ? 1.0 : 0.0}));
  all.push_back(
      number_state<std::int64_t>(kPasses, {parts_.runner->saved()->passes().item<std::int64_t>()}));
  return all;
}

void RunCompression::restore(const StateMap& saved) {
  const auto sketches = numbers_from<float>(saved, kSketches);
  constexpr std::size_t kValues = std::tuple_size_v<decltype(SavedSketch::values)>;
  if (sketches.size() % kValues != 0)
    throw StorageError(text("the checkpoint's state '", kSketches, "' is cut"));
  const auto passes = numbers_from<std::int64_t>(saved, kPasses, 1);
  const auto rate = numbers_from<double>(saved, kRate, 2);
  state_ = compression_from(saved);
  orders_ = orders_of(state_, options_.loop);
  highest_rate_ = rate[0];
  replan_ = rate[1] != 0;
  sketches_.assign(sketches.size() / kValues, {});
  for (std::size_t i = 0; i < sketches.size(); ++i)
    sketches_[i / kValues].values[i % kValues] = sketches[i];
  parts_.runner->saved()->passes().fill_(passes.front());
}

}  // namespace triaccel
