#include "triaccel/core/plan_state.h"

#include <algorithm>

namespace triaccel {
namespace {

constexpr const char* kSizes = "plan/sizes";
constexpr const char* kChoices = "plan/choices";  // three numbers a layer
constexpr const char* kRates = "plan/learning_rate_scales";

/// A stored number as an enumerator, when it is one.
template <typename Enum>
Enum enumerator(std::int64_t stored, Enum last) {
  if (stored < 0 || stored > static_cast<std::int64_t>(last))
    throw StorageError(text("the checkpoint's plan holds an unknown choice ", stored));
  return static_cast<Enum>(stored);
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
  return {number_state<std::int64_t>(kSizes, {plan.batch_size, plan.micro_batch_size}),
          number_state<std::int64_t>(kChoices, choices), number_state<float>(kRates, rates)};
}

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
                           .saved = enumerator(choices[3 * i + 1], ActivationFormat::Raw),
                           .gradient = enumerator(choices[3 * i + 2], GradientSource::ZerothOrder),
                           .learning_rate_scale = rates[i + 1]});
  return plan;
}

}  // namespace triaccel
