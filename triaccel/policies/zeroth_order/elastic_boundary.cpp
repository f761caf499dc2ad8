#include "triaccel/policies/zeroth_order/elastic_boundary.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/policies/memory/memory_model.h"

namespace triaccel {
namespace {

constexpr double kKeptLoss = 0.8;  // decay of the average loss
constexpr const char* kBoundaryCounters = "boundary/counters";
constexpr const char* kBoundaryLosses = "boundary/losses";

constexpr double kKeptAverages = 0.9;     // decay of the averages per interval
constexpr std::int64_t kFirstTicks = 20;  // warm-up of the averages
constexpr std::int64_t kHighTicks = 10;
constexpr double kRise = 0.05;       // minimum rise relative to the best loss
constexpr double kDeviations = 2.5;  // minimum rise in deviations of one interval
constexpr const char* kCounters = "loss_alarm/counters";
constexpr const char* kLosses = "loss_alarm/losses";

/// Of the limit minus what is kept whatever the boundary is; 0 without a limit.
double used_share(const MemoryReport& memory) {
  const auto limit = static_cast<double>(memory.limit);
  const double fixed = std::min(fixed_bytes(memory), limit);
  const double used = static_cast<double>(memory.peak) - fixed;
  return limit > fixed ? used / (limit - fixed) : 0;
}

}  // namespace

std::int64_t bp_layers_of(const StepPlan& plan) {
  return std::ranges::count(plan.layers, GradientSource::Backprop, &LayerPlan::gradient);
}

void set_boundary(StepPlan& plan, std::int64_t bp_layers) {
  const auto layers = static_cast<std::int64_t>(plan.layers.size());
  require(bp_layers >= 0 && bp_layers <= layers, "--bp-layers", "the model has ", layers,
          " layers, got ", bp_layers);
  for (std::int64_t i = 0; i < layers; ++i)
    plan.layers[static_cast<std::size_t>(i)].gradient =
        i < layers - bp_layers ? GradientSource::ZerothOrder : GradientSource::Backprop;
}

std::optional<BoundaryFit> search_boundary(std::int64_t layers, std::int64_t batch,
                                           std::int64_t smallest_pass,
                                           const std::function<bool(const BoundaryFit&)>& fits) {
  const std::int64_t smallest = std::min(smallest_pass, batch);
  if (!fits({0, smallest})) return {};
  std::int64_t low = 0, high = layers + 1;  // `low` fits, `high` does not
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (fits({middle, smallest}) ? low : high) = middle;
  }
  for (std::int64_t pass = batch; pass > smallest; pass = (pass + 1) / 2)
    if (fits({low, pass})) return BoundaryFit{low, pass};
  return BoundaryFit{low, smallest};
}

BoundaryPolicy::BoundaryPolicy(const BoundaryOptions& options) : options_(options) {
  require(options.smallest >= 0 && options.smallest <= options.largest, "BoundaryPolicy",
          "need 0 <= smallest <= largest, got ", options.smallest, " and ", options.largest);
  require(options.dwell_ticks >= 1, "BoundaryPolicy", "dwell_ticks must be positive, got ",
          options.dwell_ticks);
}

void BoundaryPolicy::record_excess(std::int64_t bp_layers) {
  too_many_ = bp_layers;
  wait_ticks_ = std::max(4 * options_.dwell_ticks, 2 * wait_ticks_);
  wait_until_ = tick_ + wait_ticks_;
  moved_at_ = tick_;
}

void BoundaryPolicy::apply(const StepReport& report, StepPlan& plan, PolicyEvents& events) {
  ++tick_;
  if (std::isfinite(report.loss)) {
    loss_ = tick_ == 1 ? report.loss : kKeptLoss * loss_ + (1 - kKeptLoss) * report.loss;
    if (tick_ == 1) loss_before_ = loss_;
  }
  const std::int64_t now = bp_layers_of(plan);
  const double used = used_share(report.memory);
  if (used > options_.shrink_above && now > options_.smallest) {
    record_excess(now);
    set_boundary(plan, now - 1);
    events.push_back(text("memory is short: using backpropagation in ", now - 1,
                          now == 2 ? " layer" : " layers"));
    return;
  }
  if (tick_ - moved_at_ < options_.dwell_ticks) return;
  const bool plateau = loss_ > loss_before_ * (1 - options_.standstill);
  moved_at_ = tick_;
  loss_before_ = loss_;
  const bool allowed = too_many_ == 0 || now + 1 < too_many_ || tick_ >= wait_until_;
  if (!plateau || !allowed || used > options_.grow_below || now >= options_.largest) return;
  set_boundary(plan, now + 1);
  events.push_back(
      text("loss plateau: using backpropagation in ", now + 1, now == 0 ? " layer" : " layers"));
}

std::optional<StepPlan> BoundaryPolicy::out_of_memory(const StepPlan& failed) {
  const std::int64_t now = bp_layers_of(failed);
  if (now <= options_.smallest) return {};
  record_excess(now);
  StepPlan plan = failed;
  set_boundary(plan, now - 1);
  return plan;
}

std::vector<StateView> BoundaryPolicy::state() const {
  return {number_state<std::int64_t>(kBoundaryCounters,
                                     {tick_, moved_at_, too_many_, wait_until_, wait_ticks_}),
          number_state<double>(kBoundaryLosses, {loss_, loss_before_})};
}

void BoundaryPolicy::restore(const StateMap& saved) {
  const auto counters = numbers_from<std::int64_t>(saved, kBoundaryCounters, 5);
  const auto losses = numbers_from<double>(saved, kBoundaryLosses, 2);
  assign_numbers(counters, tick_, moved_at_, too_many_, wait_until_, wait_ticks_);
  assign_numbers(losses, loss_, loss_before_);
}

std::optional<std::string> LossAlarm::after(double loss, std::int64_t step) {
  if (!std::isfinite(loss)) return {};
  ++ticks_;
  // Plain mean at first, exponential moving average later.
  const double share = std::max(1 - kKeptAverages, 1 / static_cast<double>(ticks_));
  mean_ += share * (loss - mean_);
  deviation_ += share * (std::abs(loss - mean_) - deviation_);
  if (ticks_ <= kFirstTicks || mean_ < best_) {
    best_ = mean_;
    best_step_ = step;
    high_ticks_ = 0;
    return {};
  }
  const bool high = mean_ > best_ + std::max(kRise * best_, kDeviations * deviation_);
  high_ticks_ = high ? high_ticks_ + 1 : 0;
  if (high_ticks_ < kHighTicks) return {};
  const double before = std::exchange(best_, mean_);  // a further rise is reported again
  high_ticks_ = 0;
  return text("training loss is rising: ", mean_, " at step ", step, ", was ", before, " at step ",
              std::exchange(best_step_, step));
}

std::vector<StateView> LossAlarm::state() const {
  return {number_state<std::int64_t>(kCounters, {ticks_, high_ticks_, best_step_}),
          number_state<double>(kLosses, {mean_, deviation_, best_})};
}

void LossAlarm::restore(const StateMap& saved) {
  const auto counters = numbers_from<std::int64_t>(saved, kCounters, 3);
  const auto losses = numbers_from<double>(saved, kLosses, 3);
  assign_numbers(counters, ticks_, high_ticks_, best_step_);
  assign_numbers(losses, mean_, deviation_, best_);
}

}  // namespace triaccel
