#include "triaccel/policies/precision/precision_policy.h"

#include <algorithm>

#include "triaccel/base/error.h"
#include "triaccel/policies/precision/precision_rules.h"

namespace triaccel {

Precision starting_precision(const PrecisionOptions& options) {
  return PrecisionLadder{.bf16 = options.has_bf16, .fp16 = options.has_fp16}.nearest(
      Precision::Bf16);
}

PrecisionPolicy::PrecisionPolicy(const ControlOptions& options, std::vector<LayerKind> kinds)
    : options_(options.precision),
      set_(options.set),
      starts_at_first_(options.set == PolicySet::Robust || options.guards.average_starts_at_first),
      watches_nonfinite_(options.set == PolicySet::Robust || options.guards.nonfinite),
      kinds_(std::move(kinds)),
      ladder_{.bf16 = options.precision.has_bf16, .fp16 = options.precision.has_fp16},
      variance_(kinds_.size(), options.precision.beta, starts_at_first_),
      nonfinite_(kinds_.size(), options.precision),
      has_thresholds_(!options.precision.automatic),
      thresholds_{.low = options.precision.tau_low, .high = options.precision.tau_high},
      lower_wanted_(kinds_.size(), 0) {}

void PrecisionPolicy::apply(const StepReport& report, const std::vector<bool>& promoted,
                            const GradientNoise& noise, StepPlan& plan, PolicyEvents& events) {
  ++ticks_;
  const std::int64_t started = variance_.add(report.layers);
  if (started > 0 && starts_at_first_ && set_ == PolicySet::Paper)
    events.push_back(
        text("guard: variance of ", started, " layers initialized with the first value"));
  if (set_ == PolicySet::Paper) find_thresholds(events);
  if (watches_nonfinite_) nonfinite_.add(report, plan, ladder_, events);

  std::vector<Precision> wanted = by_variance(report, noise, plan);
  std::int64_t changes_left = options_.changes_per_tick;
  // Promotions first, so that they are not limited by demotions.
  for (const bool upwards : {true, false}) {
    for (std::size_t l = 0; l < plan.layers.size(); ++l) {
      Precision& now = plan.layers[l].compute;
      if (rank_of(now) < 0) continue;
      Precision to = promoted[l] ? ladder_.up(wanted[l]) : wanted[l];
      to = higher(to, nonfinite_.least(l));
      if (upwards != (rank_of(to) > rank_of(now))) continue;
      if (!may_change(now, to, l, changes_left)) continue;
      events.push_back(text("layer ", l, ": ", name_of(now), " -> ", name_of(to),
                            promoted[l] ? ", promoted because of its curvature" : ""));
      now = to;
    }
  }
}

std::vector<Precision> PrecisionPolicy::by_variance(const StepReport& report,
                                                    const GradientNoise& noise,
                                                    const StepPlan& plan) const {
  std::vector<Precision> wanted(plan.layers.size(), starting_precision(options_));
  if (set_ == PolicySet::Paper) {
    for (std::size_t l = 0; l < wanted.size(); ++l)
      if (has_thresholds_ && variance_.known(l))
        wanted[l] = ladder_.nearest(paper_precision(variance_[l], thresholds_));
    return wanted;
  }
  const std::vector<double> scores = variance_scores(variance_, kinds_);
  for (std::size_t l = 0; l < wanted.size(); ++l) {
    if (l >= report.layers.size()) continue;
    wanted[l] = robust_precision({.signals = report.layers[l],
                                  .variance_score = scores[l],
                                  .gradient_noise = noise.of_layer(l),
                                  .batch_size = plan.batch_size,
                                  .current = plan.layers[l].compute},
                                 options_);
  }
  return wanted;
}

void PrecisionPolicy::find_thresholds(PolicyEvents& events) {
  if (has_thresholds_ || ticks_ <= options_.warmup_ticks) return;
  std::vector<double> known;
  for (std::size_t l = 0; l < kinds_.size(); ++l)
    if (variance_.known(l)) known.push_back(variance_[l]);
  if (known.empty()) return;
  thresholds_ = thresholds_from(known, options_.quantile_low, options_.quantile_high);
  has_thresholds_ = true;
  events.push_back(text("variance thresholds after the warm-up: tau_low ", thresholds_.low,
                        ", tau_high ", thresholds_.high));
}

bool PrecisionPolicy::may_change(Precision from, Precision to, std::size_t layer,
                                 std::int64_t& changes_left) {
  if (set_ == PolicySet::Paper) return from != to;
  const bool down = rank_of(to) < rank_of(from);
  lower_wanted_[layer] = down ? lower_wanted_[layer] + 1 : 0;
  if (from == to || (down && lower_wanted_[layer] < options_.dwell_ticks)) return false;
  const bool forced = rank_of(nonfinite_.least(layer)) > rank_of(from);
  if (!forced && changes_left == 0) return false;
  if (!forced) --changes_left;
  lower_wanted_[layer] = 0;
  return true;
}

void PrecisionPolicy::save(std::vector<StateView>& state) const {
  variance_.save(state);
  nonfinite_.save(state);
  state.push_back(number_state<std::int64_t>("precision.ticks", {ticks_, has_thresholds_ ? 1 : 0}));
  state.push_back(
      number_state<double>("precision.thresholds", {thresholds_.low, thresholds_.high}));
  state.push_back(number_state("precision.lower_wanted", lower_wanted_));
}

void PrecisionPolicy::restore(const StateMap& saved) {
  variance_.restore(saved);
  nonfinite_.restore(saved);
  const auto ticks = numbers_from<std::int64_t>(saved, "precision.ticks", 2);
  ticks_ = ticks[0];
  has_thresholds_ = ticks[1] != 0;
  const auto thresholds = numbers_from<double>(saved, "precision.thresholds", 2);
  thresholds_ = {.low = thresholds[0], .high = thresholds[1]};
  lower_wanted_ = numbers_from<std::int64_t>(saved, "precision.lower_wanted",
                                             static_cast<std::int64_t>(lower_wanted_.size()));
}

}  // namespace triaccel
