#include "triaccel/policies/memory/memory_model.h"

#include <algorithm>
#include <cmath>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

// A plain mean at first, then an average over about this many ticks.
constexpr std::int64_t kMemory = 8;
// Relative change of a size's bytes that is not noise.
constexpr double kNewLevel = 0.05;
// Relative to the available memory: a larger rise of the limit clears old failures.
constexpr double kNewRoom = 0.02;
constexpr std::int64_t kLongestWait = 1 << 20;  // ticks

}  // namespace

const MemoryModel::Point* MemoryModel::point_at(std::int64_t pass) const {
  const auto found = std::find_if(points_.begin(), points_.end(),
                                  [pass](const Point& point) { return point.pass == pass; });
  return found == points_.end() ? nullptr : &*found;
}

void MemoryModel::add(std::int64_t pass, double bytes, std::int64_t tick) {
  auto slot = std::find_if(points_.begin(), points_.end(),
                           [pass](const Point& point) { return point.pass == pass; });
  if (slot == points_.end()) {  // evict the least recently measured
    slot = std::min_element(points_.begin(), points_.end(),
                            [](const Point& a, const Point& b) { return a.tick < b.tick; });
    *slot = {.pass = pass};
  }
  const double change = bytes - slot->mean;
  if (slot->count > 0 && std::abs(change) > kNewLevel * slot->mean) {
    for (Point& point : points_) {
      point.mean = std::max(0.0, point.mean + change);
      point.newest = std::max(0.0, point.newest + change);
    }
    slot->count = 0;
    slot->mean = 0;
    if (change < 0) forbidden_ = wait_ = 0;  // the failed size may fit now
  }
  slot->tick = tick;
  slot->count = std::min(slot->count + 1, kMemory);
  slot->mean += (bytes - slot->mean) / static_cast<double>(slot->count);
  slot->newest = bytes;
  if (forbidden_ > 0 && pass >= forbidden_) forbidden_ = 0;
}

MemoryLine MemoryModel::line_at(std::int64_t pass, double fixed_bytes, double noise) const {
  const Point* here = point_at(pass);
  ensure(here != nullptr, "memory is queried only for measured sizes");
  MemoryLine line{.pass = pass, .bytes = std::max(here->mean, here->newest)};
  const double of_the_batch = line.bytes - std::clamp(fixed_bytes, 0.0, line.bytes);
  line.slope = of_the_batch / static_cast<double>(pass);
  line.steepest = (of_the_batch + noise * line.bytes) / static_cast<double>(pass);

  double count = 0, mean_pass = 0, mean_bytes = 0;
  for (const Point& point : points_) {
    if (point.pass == 0) continue;
    count += 1;
    mean_pass += (static_cast<double>(point.pass) - mean_pass) / count;
    mean_bytes += (point.mean - mean_bytes) / count;
  }
  double spread = 0, together = 0;
  for (const Point& point : points_) {
    if (point.pass == 0) continue;
    const double distance = static_cast<double>(point.pass) - mean_pass;
    spread += distance * distance;
    together += distance * (point.mean - mean_bytes);
  }
  line.guessed = spread <= 0;
  if (!line.guessed) {
    line.slope = std::clamp(together / spread, 0.0, line.steepest);
    line.steepest = std::min(line.steepest, line.slope + noise * line.bytes / std::sqrt(spread));
  }
  return line;
}

std::int64_t MemoryModel::too_large_above(std::int64_t pass, double bytes,
                                          std::int64_t since_tick) const {
  std::int64_t smallest = 0;
  for (const Point& point : points_) {
    const bool too_large = point.pass > pass && std::max(point.mean, point.newest) > bytes;
    if (too_large && point.tick >= since_tick && (smallest == 0 || point.pass < smallest))
      smallest = point.pass;
  }
  return smallest;
}

void MemoryModel::forbid(std::int64_t pass, std::int64_t tick, std::int64_t retry_ticks) {
  const bool again = forbidden_ == 0 && wait_ > 0;
  wait_ = again ? std::min(2 * wait_, kLongestWait) : std::max(wait_, retry_ticks);
  forbidden_ = forbidden_ > 0 ? std::min(forbidden_, pass) : pass;
  forbidden_until_ = tick + wait_;
  forbidden_limit_ = 0;
}

void MemoryModel::forgive(double limit, double room, std::int64_t tick) {
  if (forbidden_ == 0) return;
  if (forbidden_limit_ == 0) forbidden_limit_ = limit;
  if (limit - forbidden_limit_ > kNewRoom * room) {
    forbidden_ = 0;
    wait_ = 0;
  } else if (tick >= forbidden_until_) {
    forbidden_ = 0;
  }
}

void MemoryModel::write(std::vector<std::int64_t>& integers, std::vector<double>& reals) const {
  for (const Point& point : points_) {
    integers.insert(integers.end(), {point.pass, point.tick, point.count});
    reals.insert(reals.end(), {point.mean, point.newest});
  }
  integers.insert(integers.end(), {forbidden_, forbidden_until_, wait_});
  reals.push_back(forbidden_limit_);
}

void MemoryModel::read(const std::int64_t* integers, const double* reals) {
  for (Point& point : points_) {
    point = {.pass = integers[0],
             .tick = integers[1],
             .count = integers[2],
             .mean = reals[0],
             .newest = reals[1]};
    integers += 3;
    reals += 2;
  }
  forbidden_ = integers[0];
  forbidden_until_ = integers[1];
  wait_ = integers[2];
  forbidden_limit_ = reals[0];
}

double fixed_bytes(const MemoryReport& memory) {
  double sum = 0;
  for (MemoryPurpose purpose :
       {MemoryPurpose::Weights, MemoryPurpose::Optimizer, MemoryPurpose::Data})
    sum += static_cast<double>(memory.peak_by_purpose[static_cast<std::size_t>(purpose)]);
  return sum;
}

MemoryBand memory_band(double limit_bytes, double fixed_bytes, const BatchOptions& options) {
  const double fixed = std::clamp(fixed_bytes, 0.0, limit_bytes);
  const double room = limit_bytes - fixed;
  const double apart = 2 * options.measurement_noise * limit_bytes;
  const double shrink_above = std::min(fixed + options.rho_high * room, limit_bytes - apart);
  return {.room = room,
          .apart = apart,
          .grow_to = std::min(fixed + options.rho_low * room, shrink_above - apart),
          .shrink_above = shrink_above,
          .steady_gap = std::max(options.steady_gap * room, apart)};
}

}  // namespace triaccel
