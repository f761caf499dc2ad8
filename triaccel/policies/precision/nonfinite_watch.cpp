#include "triaccel/policies/precision/nonfinite_watch.h"

#include <algorithm>
#include <iterator>

#include "triaccel/base/error.h"

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
                          " skipped steps; using ", name_of(up), " for ", hold_ticks_, " ticks"));
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

}  // namespace triaccel
