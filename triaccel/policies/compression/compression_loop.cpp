#include "triaccel/policies/compression/compression_loop.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

constexpr double kKeptMean = 0.9;         // of the averages, a tick
constexpr std::int64_t kFirstLosses = 8;  // before the averages mean anything
constexpr double kLeastDeviation = 0.02;  // of the mean loss: less is no spike, however calm
constexpr double kQuietNoise = 0.25;      // of the target: far below it
constexpr double kAimedNoise = 0.5;       // of the target
constexpr double kNoisePower = 4;         // by which noise falls with bytes, at about three bits
constexpr double kFewestBytes = 0.75, kMostBytes = 1.5;  // after one measurement, over those before
constexpr const char* kNumbers = "compression/numbers";
constexpr const char* kCounts = "compression/counts";

std::string brief(double value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.3g", value);
  return digits;
}

double ratio_of(const CompressionState& state, const LoopOptions& options) {
  return options.target_ratio / state.bytes;
}

/// Whether the ratio may rise above its target.
bool is_free(const LoopOptions& options) { return options.most_ratio > options.target_ratio; }

/// True when there was room to grow. A start above the limit is left where it is.
bool grow(CompressionState& state, double factor, const LoopOptions& options) {
  const double most = std::max(options.target_ratio / options.least_ratio, state.bytes);
  const double before = state.bytes;
  state.bytes = std::min(state.bytes * factor, most);
  return state.bytes > before;
}

bool shrink(CompressionState& state, double factor, const LoopOptions& options) {
  const double most_ratio = options.most_ratio > 0 ? options.most_ratio : options.target_ratio;
  const double least = std::min(options.target_ratio / most_ratio, state.bytes);
  const double before = state.bytes;
  state.bytes = std::max(state.bytes * factor, least);
  return state.bytes < before;
}

std::string change_text(double ratio_before, const CompressionState& state,
                        const LoopOptions& options) {
  return text("compression ", brief(ratio_before), "x -> ", brief(ratio_of(state, options)), "x: ");
}

/// Spreads of the loss about its mean; upwards positive.
double loss_score(const CompressionState& state, double loss) {
  const double deviation =
      std::max(std::sqrt(state.loss_variance), kLeastDeviation * std::abs(state.loss_mean));
  return deviation > 0 ? (loss - state.loss_mean) / deviation : 0;
}

void add_loss(CompressionState& state, double loss) {
  ++state.loss_ticks;
  const double share = std::max(1 - kKeptMean, 1 / static_cast<double>(state.loss_ticks));
  const double distance = loss - state.loss_mean;
  state.loss_mean += share * distance;
  state.loss_variance = (1 - share) * (state.loss_variance + share * distance * distance);
}

/// Lossless for a while, and more bytes after it, unless the last profile found next to no
/// compression noise. What comes after a spike may be another level: the averages restart.
void fall_back(CompressionState& state, const CompressionTick& tick, const std::string& why,
               const LoopOptions& options, PolicyEvents& events) {
  const bool lossy = state.lossless_until == 0;
  const bool cleared = state.noise >= 0 && state.noise < kQuietNoise && !tick.nonfinite;
  const double before = ratio_of(state, options);
  if (lossy && !cleared) grow(state, options.spike_grow, options);
  state.lossless_until = tick.step + options.lossless_steps;
  state.loss_ticks = 0;
  state.loss_mean = state.loss_variance = 0;
  state.quiet = false;
  state.quiet_epochs = 0;
  if (!lossy)
    events.push_back(text("compression stays lossless for another ", options.lossless_steps,
                          " steps: ", why, ", not caused by compression"));
  else if (cleared)
    events.push_back(text("compression pauses for ", options.lossless_steps, " steps: ", why,
                          "; its noise is too low to be the cause, so the ratio stays"));
  else
    events.push_back(change_text(before, state, options) +
                     text(why, "; lossless for ", options.lossless_steps, " steps first"));
}

bool is_measured(const CompressionTick& tick) {
  return !std::isnan(tick.compression_noise) && tick.batch_noise > 0;
}

void answer_noise(CompressionState& state, const CompressionTick& tick, const LoopOptions& options,
                  PolicyEvents& events) {
  if (!is_measured(tick)) return;
  const double target = options.noise_target, noise = state.noise * target;
  const double before = ratio_of(state, options);
  const std::string reason =
      std::isfinite(noise)
          ? text("compression adds ", brief(100 * noise), " % to the mini-batch's noise, target ",
                 brief(100 * target), " %")
          : std::string("a gradient under compression was not finite");
  const double to_aim =
      std::clamp(std::pow(state.noise / kAimedNoise, 1 / kNoisePower), kFewestBytes, kMostBytes);
  const double to_target = std::min(std::pow(state.noise, 1 / kNoisePower), kMostBytes);
  if (state.noise > 1) {
    state.quiet = false;
    state.quiet_epochs = 0;
    if (grow(state, is_free(options) ? to_aim : std::max(options.grow, to_target), options)) {
      events.push_back(change_text(before, state, options) + reason);
    } else if (!state.told_limit) {
      state.told_limit = true;
      events.push_back(
          text("compression stays at ", brief(before), "x, the lowest allowed: ", reason));
    }
  } else if (state.noise < kQuietNoise && state.frozen_epochs == 0 &&
             shrink(state, to_aim, options)) {
    state.told_limit = false;
    events.push_back(change_text(before, state, options) + reason);
  }
}

/// What drops: points of accuracy, or, without any, the training loss.
struct Drop {
  bool measured = false;
  bool too_far = false;
  std::string reason = {};
};

Drop drop_of(const CompressionState& state, const CompressionEpoch& epoch,
             const LoopOptions& options) {
  if (std::isfinite(epoch.accuracy)) {
    const bool referred = std::isfinite(epoch.reference);
    const double best = referred ? epoch.reference : state.best_accuracy;
    const double points = best - epoch.accuracy;
    return {.measured = true,
            .too_far = best >= 0 && points > options.guard_points,
            .reason = text("accuracy ", brief(epoch.accuracy), " % is ", brief(points),
                           referred ? " points below the reference" : " points below the best")};
  }
  if (state.loss_ticks == 0) return {};
  return {.measured = true,
          .too_far =
              state.best_loss > 0 && state.loss_mean > state.best_loss * (1 + options.guard_loss),
          .reason = text("training loss ", brief(state.loss_mean), " is above its best ",
                         brief(state.best_loss))};
}

}  // namespace

CompressionState first_state(const LoopOptions& options) {
  CompressionState state;
  if (options.start_ratio > 0) state.bytes = options.target_ratio / options.start_ratio;
  return state;
}

CompressionOrders orders_of(const CompressionState& state, const LoopOptions& options) {
  return {.ratio = ratio_of(state, options),
          .lossless = state.lossless_until > 0,
          .frozen = state.frozen_epochs > 0};
}

CompressionState after_tick(CompressionState state, const CompressionTick& tick,
                            const LoopOptions& options, PolicyEvents& events) {
  if (!options.adapt) return state;
  if (is_measured(tick))
    state.noise = noise_over_target(tick.compression_noise, tick.batch_noise, options);
  if (tick.nonfinite) {
    fall_back(state, tick, "a loss or gradient was not finite", options, events);
    return state;
  }
  const bool has_loss = std::isfinite(tick.loss);
  const double score = has_loss ? loss_score(state, tick.loss) : 0;
  if (state.loss_ticks >= kFirstLosses && score > options.spike_deviations) {
    fall_back(state, tick,
              text("loss ", brief(tick.loss), " is ", brief(score), " deviations above its mean ",
                   brief(state.loss_mean)),
              options, events);
    return state;
  }
  if (has_loss) add_loss(state, tick.loss);
  if (state.lossless_until > 0) {
    if (tick.step < state.lossless_until) return state;
    state.lossless_until = 0;
    events.push_back(text("compression resumed at ", brief(ratio_of(state, options)), "x"));
    return state;  // nothing was compressed in this interval
  }
  answer_noise(state, tick, options, events);
  return state;
}

CompressionState after_epoch(CompressionState state, const CompressionEpoch& epoch,
                             const LoopOptions& options, PolicyEvents& events) {
  if (!options.adapt) return state;
  const double before = ratio_of(state, options);
  const Drop drop = drop_of(state, epoch, options);
  state.frozen_epochs = std::max<std::int64_t>(0, state.frozen_epochs - 1);
  state.rise_failed = state.rise_failed && state.frozen_epochs > 0;
  if (drop.too_far && state.lossless_until == 0) {
    const bool grew = grow(state, options.guard_grow, options);
    state.frozen_epochs = options.frozen_epochs;
    state.rise_failed = false;
    state.quiet_epochs = 0;
    const std::string change =
        grew ? change_text(before, state, options)
             : text("compression stays at ", brief(before), "x, the lowest allowed: ");
    events.push_back(change + drop.reason +
                     text("; the ratio will not rise for ", options.frozen_epochs, " epochs"));
  } else if (drop.measured && !drop.too_far && state.quiet) {
    ++state.quiet_epochs;
  }
  if (state.quiet_epochs >= std::max<std::int64_t>(1, options.quiet_epochs)) {
    state.quiet_epochs = 0;
    const bool has_room = !is_free(options) || state.noise < kAimedNoise;
    if (state.frozen_epochs == 0 && has_room && shrink(state, options.quiet_shrink, options)) {
      state.told_limit = false;
      events.push_back(change_text(before, state, options) +
                       text(options.quiet_epochs, " quiet epochs"));
    }
  }
  state.quiet = true;
  if (std::isfinite(epoch.accuracy))
    state.best_accuracy = std::max(state.best_accuracy, epoch.accuracy);
  if (state.loss_ticks > 0)
    state.best_loss =
        state.best_loss > 0 ? std::min(state.best_loss, state.loss_mean) : state.loss_mean;
  return state;
}

double noise_over_target(double compression_noise, double batch_noise, const LoopOptions& options) {
  if (compression_noise == 0) return 0;
  const double noise = compression_noise / batch_noise / options.noise_target;
  return std::isnan(noise) ? std::numeric_limits<double>::infinity() : noise;
}

CompressionState after_failed_rise(CompressionState state, double ratio, bool all_the_way,
                                   const LoopOptions& options, PolicyEvents& events) {
  const double before = ratio_of(state, options), bytes = options.target_ratio / ratio;
  state.bytes = all_the_way ? bytes : std::sqrt(bytes * state.bytes);
  state.rise_failed = state.rise_failed || state.frozen_epochs == 0;
  state.frozen_epochs = std::max(state.frozen_epochs, options.frozen_epochs);
  events.push_back(change_text(before, state, options) +
                   text("it adds too much noise; the ratio will not rise for ",
                        options.frozen_epochs, " epochs"));
  return state;
}

CompressionState after_too_few_bits(CompressionState state, double ratio,
                                    const LoopOptions& options, PolicyEvents& events) {
  const double before = ratio_of(state, options);
  state.bytes = options.target_ratio / ratio;
  state.rise_failed = false;
  state.frozen_epochs = std::max(state.frozen_epochs, options.frozen_epochs);
  events.push_back(change_text(before, state, options) +
                   text("nonlinear inputs and attention would keep too few bits; the ratio will "
                        "not rise for ",
                        options.frozen_epochs, " epochs"));
  return state;
}

CompressionState after_better_plans(CompressionState state, PolicyEvents& events) {
  if (!state.rise_failed || state.frozen_epochs == 0) return state;
  state.frozen_epochs = 0;
  state.rise_failed = false;
  events.push_back("the compression ratio may rise again: bit widths follow measured errors now");
  return state;
}

double error_bound_of(const CompressionState& state, double error_bound) {
  return error_bound / std::pow(state.bytes, kNoisePower);
}

std::vector<StateView> compression_state(const CompressionState& s) {
  return {
      number_state<double>(
          kNumbers, {s.bytes, s.best_accuracy, s.best_loss, s.loss_mean, s.loss_variance, s.noise}),
      number_state<std::int64_t>(kCounts, {s.loss_ticks, s.lossless_until, s.frozen_epochs,
                                           s.quiet_epochs, s.quiet, s.told_limit, s.rise_failed})};
}

CompressionState compression_from(const StateMap& saved) {
  auto numbers = numbers_from<double>(saved, kNumbers);
  if (numbers.size() == 8)  // written by a version in which the price of dropped bands changed
    numbers.erase(numbers.begin() + 1, numbers.begin() + 3);
  else
    numbers = numbers_from<double>(saved, kNumbers, 6);
  auto counts = numbers_from<std::int64_t>(saved, kCounts);
  if (counts.size() == 6)  // written by a version that did not say why a ratio was frozen
    counts.push_back(0);
  else
    counts = numbers_from<std::int64_t>(saved, kCounts, 7);
  CompressionState s;
  assign_numbers(numbers, s.bytes, s.best_accuracy, s.best_loss, s.loss_mean, s.loss_variance,
                 s.noise);
  assign_numbers(counts, s.loss_ticks, s.lossless_until, s.frozen_epochs, s.quiet_epochs, s.quiet,
                 s.told_limit, s.rise_failed);
  return s;
}

}  // namespace triaccel
