#include "triaccel/core/plan_state.h"

#include <algorithm>

namespace triaccel {
namespace {

constexpr const char* kSizes = "plan/sizes";
constexpr const char* kChoices = "plan/choices";  // three numbers a layer
constexpr const char* kRates = "plan/learning_rate_scales";
constexpr const char* kSaved = "plan/saved";  // eight numbers a saved tensor
constexpr std::size_t kPerSaved = 3 + kFrequencyBands;
constexpr const char* kPredicted = "plan/predicted";  // one a saved tensor, where any is

/// A stored number as an enumerator, when it is one.
template <typename Enum>
Enum enumerator(std::int64_t stored, Enum last) {
  if (stored < 0 || stored > static_cast<std::int64_t>(last))
    throw StorageError(text("the checkpoint's plan holds an unknown choice ", stored));
  return static_cast<Enum>(stored);
}

StateView saved_state(const std::vector<SavedPlan>& plans) {
  std::vector<std::uint8_t> numbers;
  for (const SavedPlan& saved : plans) {
    numbers.insert(numbers.end(),
                   {static_cast<std::uint8_t>(saved.codec), saved.block, saved.eighths});
    numbers.insert(numbers.end(), saved.band_eighths.begin(), saved.band_eighths.end());
  }
  return number_state(kSaved, numbers);
}

StateView predicted_state(const std::vector<SavedPlan>& plans) {
  std::vector<std::uint8_t> numbers;
  for (const SavedPlan& saved : plans) numbers.push_back(saved.predicted);
  return number_state(kPredicted, numbers);
}

std::vector<SavedPlan> saved_from(const StateMap& map) {
  const auto numbers = numbers_from<std::uint8_t>(map, kSaved);
  if (numbers.size() % kPerSaved != 0)
    throw StorageError(text("the checkpoint's state '", kSaved, "' has another size"));
  std::vector<SavedPlan> plans;
  for (std::size_t i = 0; i < numbers.size(); i += kPerSaved) {
    SavedPlan& saved = plans.emplace_back();
    saved.codec = enumerator(numbers[i], SavedCodec::LowHighSplit);
    saved.block = numbers[i + 1];
    saved.eighths = numbers[i + 2];
    std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(i) + 3, kFrequencyBands,
                saved.band_eighths.begin());
  }
  if (!map.contains(kPredicted)) return plans;
  const auto predicted =
      numbers_from<std::uint8_t>(map, kPredicted, static_cast<std::int64_t>(plans.size()));
  for (std::size_t i = 0; i < plans.size(); ++i) plans[i].predicted = predicted[i];
  return plans;
}

}  // namespace

std::vector<StateView> plan_state(const StepPlan& plan) {
  std::vector<std::int64_t> choices;
  std::vector<float> rates = {plan.learning_rate_scale};
  for (const LayerPlan& layer : plan.layers) {
    choices.insert(choices.end(), {static_cast<std::int64_t>(layer.compute),
                                   static_cast<std::int64_t>(layer.saved),
                                   static_cast<std::int64_t>(layer.gradient)});
    rates.push_back(layer.learning_rate_scale);
  }
  std::vector<StateView> state = {
      number_state<std::int64_t>(kSizes, {plan.batch_size, plan.micro_batch_size}),
      number_state<std::int64_t>(kChoices, choices), number_state<float>(kRates, rates)};
  if (!plan.saved.empty()) state.push_back(saved_state(plan.saved));
  if (std::ranges::any_of(plan.saved, [](const SavedPlan& saved) { return saved.predicted > 0; }))
    state.push_back(predicted_state(plan.saved));
  return state;
}

bool holds_plan(const StateMap& saved) { return saved.contains(kSizes); }

StepPlan plan_from(const StateMap& saved, std::int64_t layer_count) {
  const auto sizes = numbers_from<std::int64_t>(saved, kSizes, 2);
  const auto choices = numbers_from<std::int64_t>(saved, kChoices, 3 * layer_count);
  const auto rates = numbers_from<float>(saved, kRates, layer_count + 1);
  if (sizes[1] < 1 || sizes[0] < sizes[1])
    throw StorageError(
        text("the checkpoint's plan has a batch of ", sizes[0], " in passes of ", sizes[1]));
  StepPlan plan{
      .batch_size = sizes[0], .micro_batch_size = sizes[1], .learning_rate_scale = rates[0]};
  for (std::size_t i = 0; i < static_cast<std::size_t>(layer_count); ++i)
    plan.layers.push_back({.compute = enumerator(choices[3 * i], Precision::Int8),
                           .saved = enumerator(choices[3 * i + 1], ActivationFormat::Coded),
                           .gradient = enumerator(choices[3 * i + 2], GradientSource::ZerothOrder),
                           .learning_rate_scale = rates[i + 1]});
  if (saved.contains(kSaved)) plan.saved = saved_from(saved);
  return plan;
}

}  // namespace triaccel
