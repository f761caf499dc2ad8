#include "triaccel/policies/precision/precision_policy.h"

#include <algorithm>
#include <iterator>

#include "triaccel/base/error.h"
#include "triaccel/policies/precision/precision_rules.h"

namespace triaccel {

NonfiniteWatch::NonfiniteWatch(std::size_t layers, const PrecisionOptions& options)
    : most_steps_(options.nonfinite_steps),
      hold_ticks_(options.nonfinite_ticks),
      bad_steps_(layers, 0),
      ticks_left_(layers, 0),
      promoted_to_(layers, static_cast<std::uint8_t>(Precision::Fp16)) {}

void NonfiniteWatch::add(const StepReport& report, const StepPlan& current,
                         const PrecisionLadder& ladder, PolicyEvents& events) {
  const bool loss_broke = report.nonfinite_losses > 0;
  // While the loss scale can still decrease, gradients may fit soon.
  const bool scale_acts = report.loss_scale > 1 && !loss_broke;
  // A forward overflow makes the loss and then every gradient non-finite; it must start in an FP16
  // layer, since only FP16 has such a small range.
  const bool overflow_forward =
      loss_broke && std::ranges::count(current.layers, Precision::Fp16, &LayerPlan::compute) > 0;
  // Non-finite values propagate from one layer to all earlier ones: promote only the originating
  // layer if known, the others once that no longer helps.
  const std::int64_t first = report.skipped_layer;
  const bool culprit_known =
      report.skipped_steps > 0 && first >= 0 && first < std::ssize(bad_steps_) &&
      current.layers[static_cast<std::size_t>(first)].compute != Precision::Fp32;
  for (std::size_t l = 0; l < bad_steps_.size(); ++l) {
    ticks_left_[l] = std::max<std::int64_t>(0, ticks_left_[l] - 1);
    const Precision now = current.layers[l].compute;
    bool bad = l < report.layers.size() && report.layers[l].nonfinite > 0;
    if (culprit_known) bad = static_cast<std::int64_t>(l) == first;
    if (overflow_forward) bad = now == Precision::Fp16;
    bad &= !scale_acts;
    bad_steps_[l] = bad ? bad_steps_[l] + report.skipped_steps : 0;
    const bool enough =
        bad_steps_[l] >= most_steps_ || (bad && report.consecutive_skips >= most_steps_);
    if (!enough || rank_of(now) < 0 || now == Precision::Fp32) continue;
    const Precision up = ladder.up(now);
    events.push_back(text("guard: layer ", l, " had non-finite gradients in ",
                          std::max(bad_steps_[l], report.consecutive_skips),
                          " skipped steps; using ", name_of(up), " for ", hold_ticks_,
                          " control intervals"));
    bad_steps_[l] = 0;
    ticks_left_[l] = hold_ticks_ + 1;  // this tick's decision is the first
    promoted_to_[l] = static_cast<std::uint8_t>(up);
  }
}

Precision NonfiniteWatch::least(std::size_t layer) const {
  return ticks_left_[layer] > 0 ? static_cast<Precision>(promoted_to_[layer]) : Precision::Fp16;
}

void NonfiniteWatch::save(std::vector<StateView>& state) const {
  state.push_back(number_state("nonfinite.steps", bad_steps_));
  state.push_back(number_state("nonfinite.ticks", ticks_left_));
  state.push_back(number_state("nonfinite.precision", promoted_to_));
}

void NonfiniteWatch::restore(const StateMap& saved) {
  const auto layers = static_cast<std::int64_t>(bad_steps_.size());
  bad_steps_ = numbers_from<std::int64_t>(saved, "nonfinite.steps", layers);
  ticks_left_ = numbers_from<std::int64_t>(saved, "nonfinite.ticks", layers);
  promoted_to_ = numbers_from<std::uint8_t>(saved, "nonfinite.precision", layers);
}

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
  assign_numbers(numbers_from<std::int64_t>(saved, "precision.ticks", 2), ticks_, has_thresholds_);
  assign_numbers(numbers_from<double>(saved, "precision.thresholds", 2), thresholds_.low,
                 thresholds_.high);
  lower_wanted_ = numbers_from<std::int64_t>(saved, "precision.lower_wanted",
                                             static_cast<std::int64_t>(lower_wanted_.size()));
}

}  // namespace triaccel
