#include "triaccel/core/step_plan.h"

#include <algorithm>
#include <bit>

#include "triaccel/base/random.h"

namespace triaccel {
namespace {

/// All fields but `registered` in one number, whatever the machine's order of bytes.
std::uint64_t packed(const SavedPlan& saved) {
  std::uint64_t bits = static_cast<std::uint64_t>(saved.codec);
  bits = bits << 8 | saved.block;
  bits = bits << 8 | saved.eighths;
  for (const std::uint8_t eighths : saved.band_eighths) bits = bits << 8 | eighths;
  return bits;
}

constexpr const char* kSizes = "plan/sizes";
constexpr const char* kChoices = "plan/choices";  // three numbers per layer
constexpr const char* kRates = "plan/learning_rate_scales";
constexpr const char* kSaved = "plan/saved";  // eight numbers per saved tensor
constexpr std::size_t kPerSaved = 3 + kFrequencyBands;
constexpr const char* kRegistered = "plan/registered";  // one per saved tensor, where any is not 0

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

void add_registered(std::vector<StateView>& state, const std::vector<SavedPlan>& plans) {
  std::vector<std::uint8_t> numbers;
  for (const SavedPlan& saved : plans) numbers.push_back(saved.registered);
  if (std::ranges::any_of(numbers, [](std::uint8_t each) { return each > 0; }))
    state.push_back(number_state(kRegistered, numbers));
}

void read_registered(const StateMap& map, std::vector<SavedPlan>& plans) {
  if (!map.contains(kRegistered)) return;
  const auto numbers =
      numbers_from<std::uint8_t>(map, kRegistered, static_cast<std::int64_t>(plans.size()));
  for (std::size_t i = 0; i < plans.size(); ++i) plans[i].registered = numbers[i];
}

std::vector<SavedPlan> saved_from(const StateMap& map) {
  const auto numbers = numbers_from<std::uint8_t>(map, kSaved);
  if (numbers.size() % kPerSaved != 0)
    throw StorageError(text("the checkpoint's state '", kSaved, "' has another size"));
  std::vector<SavedPlan> plans;
  for (std::size_t i = 0; i < numbers.size(); i += kPerSaved) {
    SavedPlan& saved = plans.emplace_back();
    saved.codec = enumerator(numbers[i], SavedCodec::LevelledRows);
    saved.block = numbers[i + 1];
    saved.eighths = numbers[i + 2];
    std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(i) + 3, kFrequencyBands,
                saved.band_eighths.begin());
  }
  read_registered(map, plans);
  return plans;
}

}  // namespace

std::uint64_t shape_hash(const StepPlan& plan) {
  std::uint64_t hash = mixed_hash(0, static_cast<std::uint64_t>(plan.batch_size));
  hash = mixed_hash(hash, static_cast<std::uint64_t>(plan.micro_batch_size));
  hash = mixed_hash(hash, plan.layers.size());
  for (const LayerPlan& layer : plan.layers) {
    hash = mixed_hash(hash, static_cast<std::uint64_t>(layer.compute));
    hash = mixed_hash(hash, static_cast<std::uint64_t>(layer.saved));
    hash = mixed_hash(hash, static_cast<std::uint64_t>(layer.gradient));
  }
  for (const SavedPlan& saved : plan.saved) {
    hash = mixed_hash(hash, packed(saved));
    if (saved.registered > 0) hash = mixed_hash(hash, saved.registered);
  }
  return hash;
}

std::uint64_t plan_hash(const StepPlan& plan) {
  std::uint64_t hash = shape_hash(plan);
  // -0 and +0 compare equal, so they must hash equal: adding +0 makes both +0.
  const auto fold_scale = [&](float scale) {
    hash = mixed_hash(hash, std::bit_cast<std::uint32_t>(scale + 0.0f));
  };
  fold_scale(plan.learning_rate_scale);
  for (const LayerPlan& layer : plan.layers) fold_scale(layer.learning_rate_scale);
  return hash;
}

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
  add_registered(state, plan.saved);
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
                           .saved = enumerator(choices[3 * i + 1], ActivationFormat::Offloaded),
                           .gradient = enumerator(choices[3 * i + 2], GradientSource::ZerothOrder),
                           .learning_rate_scale = rates[i + 1]});
  if (saved.contains(kSaved)) plan.saved = saved_from(saved);
  return plan;
}

}  // namespace triaccel
