#include "triaccel/policies/batch/batch_rules.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

constexpr std::size_t kMostMixes = 8;    // precision mixes remembered
constexpr double kNotableChange = 0.02;  // of the limit, as a fraction of the available memory
// Measurement noise tilts the line fitted through nearby sizes; a larger assumed noise keeps that
// alone from growing a steady size.
constexpr double kSteadyDoubt = 3;

}  // namespace

std::int64_t paper_batch(std::int64_t batch, double used_bytes, double limit_bytes,
                         const BatchOptions& options) {
  if (used_bytes < options.rho_low * limit_bytes) return batch + options.delta_up;
  if (used_bytes > options.rho_high * limit_bytes) return batch - options.delta_down;
  return batch;
}

double rate_for_batch(RateRule rule, std::int64_t first, std::int64_t batch,
                      const GradientNoise& noise) {
  const auto b0 = static_cast<double>(first);
  const auto b = static_cast<double>(batch);
  switch (rule) {
    case RateRule::None:
      return 1;
    case RateRule::Linear:
      return b / b0;
    case RateRule::Sqrt:
      return std::sqrt(b / b0);
    case RateRule::AdaScale: {
      const double variance = noise.noise();
      if (variance <= 0) return std::sqrt(b / b0);
      return (variance / b0 + noise.signal()) / (variance / b + noise.signal());
    }
  }
  return 1;
}

MemoryModel& RobustBatch::memory_of(std::uint64_t mix) {
  auto found = std::find_if(mixes_.begin(), mixes_.end(),
                            [mix](const Mix& known) { return known.key == mix; });
  if (found == mixes_.end()) {
    if (mixes_.size() < kMostMixes) {
      found = mixes_.insert(mixes_.end(), Mix{});
    } else {
      found = std::min_element(mixes_.begin(), mixes_.end(),
                               [](const Mix& a, const Mix& b) { return a.tick < b.tick; });
    }
    *found = {.key = mix};
  }
  found->tick = tick_;
  return found->memory;
}

void RobustBatch::watch_limit(double limit, double room) {
  if (std::abs(limit - limit_) <= kNotableChange * room) return;
  if (limit > limit_) cool_down_ = 0;  // the reason for shrinking no longer applies
  limit_ = limit;
  steady_ticks_ = 0;
}

std::int64_t RobustBatch::next_pass(const BatchInput& input, const PassSizes& sizes) {
  ++tick_;
  const MemoryBand band = memory_band(input.limit_bytes, input.fixed_bytes, options_);
  watch_limit(input.limit_bytes, band.room);
  if (input.mix_changes || input.mix != mix_) steady_ticks_ = 0;
  mix_ = input.mix;
  MemoryModel& memory = memory_of(input.mix);
  memory.forgive(input.limit_bytes, band.room, tick_);
  if (input.retried) {
    cool_down_ = options_.cool_down_ticks;
    steady_ticks_ = 0;
    return input.pass;
  }
  const bool cooling = cool_down_ > 0;
  cool_down_ = std::max<std::int64_t>(0, cool_down_ - 1);
  if (!input.used_bytes) return input.pass;

  memory.add(input.pass, *input.used_bytes, tick_);
  const MemoryLine line = memory.line_at(input.pass, input.fixed_bytes, options_.measurement_noise);
  std::int64_t next = input.pass;
  if (line.bytes > band.shrink_above + hysteresis(band)) {
    next = shrunk(line, band, sizes);
    if (next < input.pass) cool_down_ = options_.cool_down_ticks;
  } else if (!cooling && !input.mix_changes) {
    const double noise = (steady() ? kSteadyDoubt : 1) * options_.measurement_noise;
    next = grown(memory.line_at(input.pass, input.fixed_bytes, noise), band, memory,
                 input.largest_pass, sizes);
  }
  steady_ticks_ = next == input.pass ? steady_ticks_ + 1 : 0;
  return next;
}

bool RobustBatch::steady() const { return steady_ticks_ >= options_.steady_ticks; }

double RobustBatch::hysteresis(const MemoryBand& band) const {
  return steady() ? band.steady_gap : 0;
}

std::int64_t RobustBatch::shrunk(const MemoryLine& line, const MemoryBand& band,
                                 const PassSizes& sizes) const {
  const double most_saved =
      line.steepest * static_cast<double>(line.pass - std::min(line.pass, sizes.smallest()));
  if (most_saved < options_.measurement_noise * line.bytes + hysteresis(band))
    return line.pass;  // shrinking would save nothing
  const std::int64_t half = sizes.at_most(static_cast<double>(line.pass) / 2);
  const double surplus = line.bytes - band.grow_to;
  const double fitting = line.slope > 0 ? static_cast<double>(line.pass) - surplus / line.slope : 0;
  const std::int64_t wanted = std::max(half, sizes.at_most(fitting));
  return std::min(wanted, sizes.below(line.pass));
}

std::int64_t RobustBatch::grown(const MemoryLine& line, const MemoryBand& band,
                                const MemoryModel& memory, std::int64_t largest_pass,
                                const PassSizes& sizes) const {
  const double most_bytes = band.grow_to - hysteresis(band);
  const double room = most_bytes - line.bytes;
  if (room <= band.apart) return line.pass;  // within measurement noise
  const std::int64_t worthwhile =
      line.pass + (line.pass + 7) / 8;  // smaller growth does not justify a new graph capture
  // Off the grid the next size may be closer than that: take the one after.
  const std::int64_t one_more = sizes.above(std::min(worthwhile, line.pass + options_.bucket) - 1);
  std::int64_t most = std::max(2 * line.pass, one_more);
  most = std::min(most, largest_pass);
  const std::int64_t too_large =
      memory.too_large_above(line.pass, most_bytes, tick_ - options_.retry_ticks);
  if (too_large > 0) most = std::min(most, too_large - 1);
  if (memory.forbidden() > line.pass) {
    // Bisect towards the size that failed, until within an eighth of it.
    const std::int64_t gap = memory.forbidden() - line.pass;
    const std::int64_t next = std::min(one_more, memory.forbidden() - 1);
    most = std::min(most, 8 * gap <= line.pass ? line.pass : std::max(line.pass + gap / 2, next));
  }
  if (most <= line.pass) return line.pass;
  auto fitting = static_cast<double>(most);
  if (line.steepest > 0)
    fitting = std::min(fitting, static_cast<double>(line.pass) + room / line.steepest);
  const std::int64_t next = sizes.at_most(fitting);
  if (next >= worthwhile && static_cast<double>(next) <= fitting) return next;
  // From a single size only M(B) <= M B / B0 is known. A second size determines the slope; if it
  // does not fit, the step is retried smaller and that size is not tried again.
  return line.guessed && !memory.ever_failed() && one_more <= most ? one_more : line.pass;
}

void RobustBatch::out_of_memory(std::uint64_t mix, std::int64_t pass) {
  memory_of(mix).forbid(pass, tick_, options_.retry_ticks);
}

void RobustBatch::save(std::vector<StateView>& state) const {
  std::vector<std::int64_t> integers{tick_, cool_down_, steady_ticks_,
                                     std::bit_cast<std::int64_t>(mix_)};
  std::vector<double> reals{limit_};
  for (const Mix& mix : mixes_) {
    integers.insert(integers.end(), {std::bit_cast<std::int64_t>(mix.key), mix.tick});
    mix.memory.write(integers, reals);
  }
  state.push_back(number_state("batch.counts", integers));
  state.push_back(number_state("batch.bytes", reals));
}

void RobustBatch::restore(const StateMap& saved) {
  constexpr std::size_t kHead = 4;
  constexpr std::size_t kPerMix = 2 + MemoryModel::kIntegers;
  const auto integers = numbers_from<std::int64_t>(saved, "batch.counts");
  const auto reals = numbers_from<double>(saved, "batch.bytes");
  const std::size_t mixes = integers.size() < kHead ? 0 : (integers.size() - kHead) / kPerMix;
  if (integers.size() != kHead + mixes * kPerMix || mixes > kMostMixes ||
      reals.size() != 1 + mixes * MemoryModel::kReals)
    throw StorageError("the checkpoint's state 'batch.counts' has an unexpected size");
  tick_ = integers[0];
  cool_down_ = integers[1];
  steady_ticks_ = integers[2];
  mix_ = std::bit_cast<std::uint64_t>(integers[3]);
  limit_ = reals[0];
  mixes_.assign(mixes, {});
  for (std::size_t m = 0; m < mixes; ++m) {
    const std::int64_t* numbers = integers.data() + kHead + m * kPerMix;
    mixes_[m].key = std::bit_cast<std::uint64_t>(numbers[0]);
    mixes_[m].tick = numbers[1];
    mixes_[m].memory.read(numbers + 2, reals.data() + 1 + m * MemoryModel::kReals);
  }
}

}  // namespace triaccel
