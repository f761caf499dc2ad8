#include "triaccel/policies/compression/saved_planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "triaccel/base/error.h"
#include "triaccel/policies/compression/codec_rules.h"
#include "triaccel/policies/compression/plan_attempts.h"
#include "triaccel/policies/compression/predicted_error.h"
#include "triaccel/policies/memory/held_bytes.h"

namespace triaccel {
namespace {

void check_request(std::span<const SavedStatistics> tensors, const PlanRequest& request) {
  constexpr std::string_view who = "plan_saved";
  require(request.samples >= 1, who, "samples must be at least 1, got ", request.samples);
  require(request.previous.empty() || request.previous.size() == tensors.size(), who, "there are ",
          tensors.size(), " tensors and ", request.previous.size(), " previous plans");
  require(request.keep.empty() || request.keep.size() == request.previous.size(), who, "there are ",
          request.previous.size(), " previous plans and ", request.keep.size(), " to keep or not");
}

/// The initial choice of derived tensors and of tensors that keep their plan.
struct FirstChoice {
  std::vector<bool> derived, kept;
};

FirstChoice first_choice(std::span<const SavedStatistics> tensors, const PlanRequest& request,
                         const std::vector<bool>& derivable, bool conditional, bool keep) {
  FirstChoice choice{derivable, std::vector<bool>(tensors.size(), false)};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!conditional && is_conditional(tensors[i].derivation)) choice.derived[i] = false;
    if (!keep || request.keep.empty() || !request.keep[i]) continue;
    const bool was_derived = request.previous[i].codec == SavedCodec::Derived;
    choice.derived[i] = choice.derived[i] && was_derived;
    choice.kept[i] = !was_derived;
  }
  return choice;
}

/// The previous plans evaluated with the current statistics.
SavedDecision as_before(std::span<const SavedStatistics> tensors, const PlanRequest& request) {
  SavedDecision before{.plans = {request.previous.begin(), request.previous.end()}};
  before.errors = predicted_errors(tensors, before.plans, request.drop_price);
  before.gradient_error = gradient_error(tensors, before.errors);
  before.bytes = held_bytes(tensors, before.plans, request.samples);
  return before;
}

/// Whether the previous plans satisfy all rules; `lowered`: minimum widths cannot be met.
bool keeps_rules(std::span<const SavedStatistics> tensors, const SavedDecision& before,
                 const PlanRequest& request, const CodecOptions& options,
                 const std::vector<bool>& derivable, bool lowered) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const SavedPlan& plan = before.plans[i];
    const int least = least_bits(tensors[i].kind, options);
    if (plan.codec == SavedCodec::Derived) {
      const std::size_t root = root_of(tensors, before.plans, i);
      const double bits = mean_bits(tensors[root], before.plans[root]);
      if (!derivable[i] || !source_suffices(tensors[i].derivation, bits, before.errors[root],
                                            options, options.hysteresis))
        return false;
    } else if (!can_compress(tensors[i], request.samples)) {
      if (plan != lossless_plan(tensors[i])) return false;
    } else if (least > 1 && !lowered && mean_bits(tensors[i], plan) < least) {
      return false;
    }
    if (request.error_bound > 0 &&
        before.errors[i] > permitted_error(tensors[i], request.error_bound))
      return false;
  }
  return true;
}

bool worth_changing(const SavedDecision& before, const SavedDecision& now,
                    const PlanRequest& request, double hysteresis) {
  if (request.error_bound > 0)
    return static_cast<double>(now.bytes) < (1 - hysteresis) * static_cast<double>(before.bytes);
  return before.bytes > request.budget_bytes ||
         now.gradient_error < (1 - hysteresis) * before.gradient_error;
}

std::string summary_of(std::span<const SavedStatistics> tensors, const SavedDecision& decision,
                       const PlanRequest& request) {
  std::array<int, kSavedCodecs> counts = {};
  std::size_t changed = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    ++counts[static_cast<std::size_t>(decision.plans[i].codec)];
    changed += request.previous.empty() || decision.plans[i] != request.previous[i] ? 1 : 0;
  }
  std::string by_codec;
  for (std::size_t c = 0; c < counts.size(); ++c)
    if (counts[c] > 0)
      by_codec +=
          text(by_codec.empty() ? "" : ", ", counts[c], " ", name_of(static_cast<SavedCodec>(c)));
  const double ratio = static_cast<double>(fp32_bytes(tensors, request.samples)) /
                       static_cast<double>(std::max<std::int64_t>(1, decision.bytes));
  return text("saved tensors compressed ", std::round(100 * ratio) / 100, "x compared with FP32 (",
              by_codec, "); ", changed, " of ", tensors.size(), " plans changed");
}

}  // namespace

std::int64_t budget_for(std::span<const SavedStatistics> tensors, double ratio,
                        std::int64_t samples) {
  require(ratio > 0, "budget_for", "the ratio must be positive, got ", ratio);
  return static_cast<std::int64_t>(static_cast<double>(fp32_bytes(tensors, samples)) / ratio);
}

SavedDecision plan_saved(std::span<const SavedStatistics> tensors, const PlanRequest& request,
                         const CodecOptions& options) {
  check_request(tensors, request);
  const std::vector<bool> derivable = derivable_tensors(tensors, request.samples, options);
  PlanAttempts attempts(tensors, request, options);
  PolicyEvents events;
  bool keep = !request.keep.empty();
  FirstChoice choice = first_choice(tensors, request, derivable, true, keep);
  SavedDecision decision = attempts.decide_deriving(choice.derived, choice.kept);
  if (keep && (!decision.fits || attempts.lowered() > 0)) {
    keep = false;
    choice = first_choice(tensors, request, derivable, true, keep);
    decision = attempts.decide_deriving(choice.derived, choice.kept);
    events.push_back("plans of unchanged tensors exceed the budget: reallocating all bit widths");
  }
  int lowered = attempts.lowered();

  bool conditional = false;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    conditional = conditional || (choice.derived[i] && is_conditional(tensors[i].derivation));
  if (conditional) {
    choice = first_choice(tensors, request, derivable, false, keep);
    SavedDecision stored = attempts.decide(choice.derived, choice.kept);
    const bool less = request.error_bound > 0 ? stored.bytes < decision.bytes
                                              : stored.gradient_error < decision.gradient_error;
    if (less && attempts.lowered() <= lowered && (stored.fits || !decision.fits)) {
      decision = std::move(stored);
      lowered = attempts.lowered();
    }
  }

  if (!request.previous.empty()) {
    SavedDecision before = as_before(tensors, request);
    if (!worth_changing(before, decision, request, options.hysteresis) &&
        keeps_rules(tensors, before, request, options, derivable, lowered > 0)) {
      before.lowered = lowered;
      return before;
    }
  }
  decision.lowered = lowered;
  if (!decision.fits)
    events.push_back(text("saved tensors need at least ", decision.bytes,
                          " bytes, more than the budget of ", request.budget_bytes));
  if (lowered > 0)
    events.push_back(text("minimum bit widths of nonlinear inputs and attention lowered by ",
                          lowered, ": other tensors need the bits"));
  if (request.previous.empty() || !std::ranges::equal(decision.plans, request.previous))
    events.push_back(summary_of(tensors, decision, request));
  decision.events = std::move(events);
  return decision;
}

}  // namespace triaccel
