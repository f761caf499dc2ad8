#include "triaccel/policies/compression/tensor_sensitivities.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/policies/compression/codec_rules.h"
#include "triaccel/policies/compression/predicted_error.h"

namespace triaccel {
namespace {

constexpr double kMostSpread = 64;  // of a factor about the mean: weights change until the next one
constexpr double kNoDropPrice = 1;  // measured errors have none

/// What the error is on the profiled samples: a channel's range grows with the batch, which
/// predictions for whole batches allow for.
double error_when_profiled(const SavedStatistics& tensor, const SavedPlan& plan) {
  const double error = ErrorModel(tensor).of(plan, kNoDropPrice);
  const bool levelled =
      plan.codec == SavedCodec::Levelled || plan.codec == SavedCodec::LevelledRows;
  if (!levelled || !(tensor.levelled_squared_range > 0)) return error;
  return error * std::min(1.0, tensor.levelled_squared_range / kLeastLevelledRange);
}

/// What tells a tensor from others at its place. Not its kind, which may follow from its values.
std::int64_t identity_of(const SavedStatistics& tensor) {
  std::uint64_t hash = 14695981039346656037u;
  const auto add = [&](std::int64_t number) {
    hash = (hash ^ static_cast<std::uint64_t>(number)) * 1099511628211u;
  };
  add(tensor.layer);
  for (const std::int64_t size : tensor.sizes) add(size);
  return static_cast<std::int64_t>(hash);
}

std::vector<std::int64_t> identities_of(std::span<const SavedStatistics> tensors) {
  std::vector<std::int64_t> identities;
  for (const SavedStatistics& tensor : tensors) identities.push_back(identity_of(tensor));
  return identities;
}

}  // namespace

std::vector<LonePlan> lone_plans(std::span<const SavedStatistics> tensors,
                                 std::span<const SavedPlan> plans) {
  const std::vector<SavedPlan> lossless = lossless_plans(tensors);
  std::vector<LonePlan> all;
  std::vector<std::size_t> place(tensors.size(), tensors.size());  // of a stored tensor in `all`
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!is_lossy(plans[i].codec) || plans[i].codec == SavedCodec::Derived) continue;
    place[i] = all.size();
    all.push_back({.tensor = i, .plans = lossless});
    all.back().plans[i] = plans[i];
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (plans[i].codec != SavedCodec::Derived) continue;
    const std::size_t root = place[root_of(tensors, plans, i)];
    if (root < all.size()) all[root].plans[i] = plans[i];
  }
  return all;
}

bool TensorSensitivities::learn(std::span<const SavedStatistics> tensors,
                                std::span<const LonePlan> lone, std::span<const double> errors) {
  ensure(lone.size() == errors.size(), "one error per tensor that is measured");
  std::vector<double> logarithms(tensors.size(), std::nan(""));
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < lone.size(); ++i) {
    const std::vector<SavedPlan>& plans = lone[i].plans;
    double usual = 0;
    std::vector<std::size_t> lossy;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (!is_lossy(plans[t].codec)) continue;
      lossy.push_back(t);
      usual += sensitivity_of(tensors[t]);
    }
    const double predicted =
        usual * error_when_profiled(tensors[lone[i].tensor], plans[lone[i].tensor]);
    const double factor = std::log(errors[i] / predicted);
    if (!std::isfinite(factor)) continue;
    for (const std::size_t t : lossy) logarithms[t] = factor;
    sum += factor;
    ++count;
  }
  if (count == 0) return false;
  const double mean = sum / static_cast<double>(count), spread = std::log(kMostSpread);
  factors_.clear();
  for (const double logarithm : logarithms)
    factors_.push_back(std::exp(
        std::isnan(logarithm) ? mean : std::clamp(logarithm, mean - spread, mean + spread)));
  identities_ = identities_of(tensors);
  return true;
}

bool TensorSensitivities::are_of_others(std::span<const SavedStatistics> tensors) const {
  return !factors_.empty() && identities_ != identities_of(tensors);
}

std::vector<SavedStatistics> TensorSensitivities::applied(
    std::span<const SavedStatistics> tensors) const {
  std::vector<SavedStatistics> all(tensors.begin(), tensors.end());
  if (factors_.empty() || are_of_others(tensors)) return all;
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].sensitivity = sensitivity_of(tensors[i]) * factors_[i];
  return all;
}

std::vector<StateView> TensorSensitivities::state(const std::string& name) const {
  return {number_state(name, factors_), number_state(name + "_of", identities_)};
}

void TensorSensitivities::restore(const StateMap& saved, const std::string& name) {
  if (!saved.contains(name)) {
    *this = {};
    return;
  }
  auto factors = numbers_from<double>(saved, name);
  identities_ = numbers_from<std::int64_t>(saved, name + "_of");
  factors_ = std::move(factors);
}

}  // namespace triaccel
