#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "tests/policies/simulated_device.h"
#include "triaccel/policies/memory/memory_model.h"
#include "triaccel/policies/memory/pass_sizes.h"

namespace triaccel {
namespace {

constexpr int kTracesPerRun = 10;  // rapidcheck runs a property a hundred times

/// The whole range from the first run on; rapidcheck would begin near `low`.
double between(double low, double high) {
  const int part = *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, 100001));
  return low + (high - low) * (part / 100000.0);
}

std::vector<LayerKind> some_layers() {
  std::vector<LayerKind> kinds(*rc::gen::inRange<std::size_t>(1, 9));
  for (LayerKind& kind : kinds) kind = static_cast<LayerKind>(*rc::gen::inRange(0, 3));
  return kinds;
}

constexpr double kMostFixed = 0.97;  // of the limit

/// A device and what its gauge is said to err by at most.
struct SomeDevice {
  SimulatedDevice device;
  double noise;

  /// Fits `samples` a pass in FP32, whatever the gauge errs by.
  double limit_for(double samples) const {
    const double bytes = (device.fixed + device.sample_fp32 * samples) * (1 + device.noise);
    return std::max(bytes, device.fixed / kMostFixed);
  }

  ControlOptions options(BatchMode mode) const {
    return {.precision_on = false,
            .curvature_on = false,
            .batch = {.mode = mode, .measurement_noise = noise, .grow_as_rate_falls = false}};
  }
};

/// Under its first limit, fixed bytes take any share up to kMostFixed and any number of samples
/// from 8 to 2048 fits into the rest.
SomeDevice some_device() {
  const double noise = *rc::gen::element(0.0, 0.002, 0.01);
  SomeDevice some{.device = {.noise = between(0, noise),
                             .limit = std::exp2(between(24, 36)),
                             .known = *rc::gen::element(0.0, 0.5, 1.0, 1.0),
                             .seed = *rc::gen::arbitrary<std::uint64_t>()},
                  .noise = noise};
  SimulatedDevice& device = some.device;
  device.fixed = between(0, kMostFixed) * device.limit;
  device.sample_fp32 =
      (device.limit / (1 + device.noise) - device.fixed) / std::exp2(between(4, 11));
  return some;
}

bool same_sizes(const StepPlan& a, const StepPlan& b) {
  return a.batch_size == b.batch_size && a.micro_batch_size == b.micro_batch_size;
}

struct Moves {
  int last_change = 0;  // tick
  int reversals = 0;    // after the tenth tick
  int failures = 0;     // steps redone after the tenth tick
};

/// Turns the loop for `ticks`, checks what must hold at every tick, and counts the moves. The
/// device refuses what would pass its limit; that it has nothing to refuse once the size is steady
/// is `failures`.
Moves turn(SimulatedDevice& device, Controller& controller, StepPlan& plan, int ticks) {
  Moves moves;
  int direction = 0;
  for (int t = 1; t <= ticks; ++t) {
    const SimulatedTick tick = run_interval(device, controller, plan);
    const StepPlan next = controller.next(tick.report, tick.ran).plan;
    RC_ASSERT(next.micro_batch_size >= 1);
    RC_ASSERT(next.micro_batch_size <= next.batch_size);
    if (!same_sizes(next, plan)) {
      moves.last_change = t;
      const int now = next.micro_batch_size > plan.micro_batch_size ? 1 : -1;
      moves.reversals += t > 10 && direction != 0 && now != direction ? 1 : 0;
      direction = now;
    }
    moves.failures += t > 10 && tick.report.memory_retries > 0 ? 1 : 0;
    plan = next;
  }
  return moves;
}

StepPlan some_start(const std::vector<LayerKind>& kinds) {
  StepPlan plan{.batch_size = *rc::gen::inRange<std::int64_t>(8, 257)};
  plan.micro_batch_size = (plan.batch_size - 1) / *rc::gen::inRange<std::int64_t>(1, 4) + 1;
  plan.layers.assign(kinds.size(), LayerPlan{.compute = Precision::Bf16});
  return plan;
}

/// A pass twice as large would lie outside the band in which a steady size stays.
bool uses_its_room(const SomeDevice& some, const StepPlan& plan, const PassSizes& sizes) {
  const std::int64_t pass = samples_per_pass(plan);
  const SimulatedDevice& device = some.device;
  const MemoryBand band =
      memory_band(device.limit, device.fixed, {.measurement_noise = some.noise});
  const double twice =
      device.fixed + device.sample_bytes(plan) * static_cast<double>(sizes.above(2 * pass));
  return 9 * pass >= 8 * sizes.largest() ||
         (1 + some.noise) * twice > band.grow_to - band.steady_gap - band.apart;
}

/// A tenant takes or gives memory, or the layers get other precisions, every 110 ticks.
void converges_after_every_change(BatchMode mode) {
  for (int trace = 0; trace < kTracesPerRun; ++trace) {
    SomeDevice some = some_device();
    SimulatedDevice& device = some.device;
    const std::vector<LayerKind> kinds = some_layers();
    StepPlan plan = some_start(kinds);
    const std::int64_t start = plan.batch_size;
    const ControlOptions options = some.options(mode);
    const PassSizes sizes(options.batch, plan);
    Controller controller(options, kinds, plan);
    for (int phase = 0; phase < 3; ++phase) {
      if (phase > 0 && *rc::gen::arbitrary<bool>())
        device.limit = some.limit_for(std::exp2(between(4, 11)));
      else if (phase > 0)
        for (LayerPlan& layer : plan.layers)
          layer.compute = static_cast<Precision>(*rc::gen::inRange(0, 3));
      const Moves moves = turn(device, controller, plan, 110);
      RC_ASSERT(moves.last_change <= 10);
      RC_ASSERT(moves.reversals <= 2);
      RC_ASSERT(moves.failures == 0);
      RC_ASSERT(plan.batch_size >= std::min<std::int64_t>(8, start));
      RC_ASSERT(plan.batch_size <= 4 * start);
      RC_ASSERT(mode == BatchMode::Elastic || plan.batch_size == start);
      RC_ASSERT(some.device.known < 1 || uses_its_room(some, plan, sizes));
    }
  }
}

RC_GTEST_PROP(RobustBatchProperty, TheElasticBatchConvergesInTenTicksUnderTheLimit, ()) {
  converges_after_every_change(BatchMode::Elastic);
}

RC_GTEST_PROP(RobustBatchProperty, TheMicroBatchConvergesInTenTicksUnderTheLimit, ()) {
  converges_after_every_change(BatchMode::Micro);
}

// What the limit does not tell of shows as out of memory alone: the rule learns the size and keeps
// below it.
RC_GTEST_PROP(RobustBatchProperty, LivesWithATenantItCannotSee, ()) {
  for (int trace = 0; trace < kTracesPerRun; ++trace) {
    SomeDevice some = some_device();
    SimulatedDevice& device = some.device;
    const std::vector<LayerKind> kinds = some_layers();
    StepPlan plan = some_start(kinds);
    const auto mode = *rc::gen::element(BatchMode::Elastic, BatchMode::Micro);
    Controller controller(some.options(mode), kinds, plan);
    turn(device, controller, plan, 20);
    device.hidden = between(0, 1) * (device.limit - some.limit_for(4));
    const Moves moves = turn(device, controller, plan, 110);
    RC_ASSERT(moves.failures <= 3);
    RC_ASSERT(moves.reversals <= 6);
  }
}

/// Anything a run may report, well-formed or not.
StepReport some_report(const StepPlan& plan, std::uint64_t seed, std::uint64_t tick) {
  auto draw = [&, n = std::uint64_t{0}]() mutable {
    return static_cast<double>(unit_float(random_words(seed, tick, n++).words[0]));
  };
  StepReport report{.step = static_cast<std::int64_t>(25 * tick),
                    .interval_steps = 25,
                    .interval_samples = draw() < 0.9 ? 25 * plan.batch_size : 1,
                    .learning_rate = draw()};
  report.memory.limit = draw() < 0.9 ? static_cast<std::int64_t>(1e9 * (0.2 + draw())) : 0;
  report.memory.peak = static_cast<std::int64_t>(1e6 * draw() * double(plan.micro_batch_size));
  report.memory_retries = draw() < 0.1 ? 1 : 0;
  report.skipped_steps = draw() < 0.2 ? 3 : 0;
  report.consecutive_skips = draw() < 0.1 ? 3 : 0;
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    const double squares = std::exp2(-60 * draw());
    report.layers.push_back({.count = draw() < 0.9 ? 1000 : 0,
                             .sum_of_squares = squares,
                             .absolute_maximum = static_cast<float>(std::sqrt(squares)),
                             .nonfinite = draw() < 0.1 ? 1 : 0,
                             .fp16_zeros = draw() < 0.5 ? 0 : 10,
                             .fp16_scale = static_cast<float>(std::exp2(std::floor(20 * draw())))});
  }
  if (draw() < 0.3) {
    report.curvature.emplace();
    if (draw() < 0.1) report.curvature->skipped = "no room";
    for (std::size_t l = 0; l < plan.layers.size(); ++l) {
      LayerCurvature layer{.gradient_noise = draw(), .gradient_signal = draw() - 0.3};
      if (draw() < 0.9) layer.eigenvalues = {200 * draw() - 50, -1};
      report.curvature->layers.push_back(layer);
    }
  }
  return report;
}

ControlOptions some_options() {
  ControlOptions options = default_options(*rc::gen::element(PolicySet::Paper, PolicySet::Robust));
  options.precision_on = *rc::gen::arbitrary<bool>();
  options.curvature_on = *rc::gen::arbitrary<bool>();
  options.batch.mode = *rc::gen::element(BatchMode::Off, BatchMode::Elastic, BatchMode::Micro);
  options.batch.rate = static_cast<RateRule>(*rc::gen::inRange(0, 4));
  options.precision.has_bf16 = *rc::gen::arbitrary<bool>();
  options.precision.has_fp16 = *rc::gen::arbitrary<bool>();
  options.precision.prefer_fp16 = *rc::gen::arbitrary<bool>();
  return options;
}

RC_GTEST_PROP(ControllerProperty, EveryPlanCanRun, ()) {
  for (int trace = 0; trace < kTracesPerRun; ++trace) {
    const ControlOptions options = some_options();
    const std::vector<LayerKind> kinds = some_layers();
    StepPlan plan = some_start(kinds);
    for (LayerPlan& layer : plan.layers) layer.compute = starting_precision(options.precision);
    const StepPlan start = plan;
    Controller controller(options, kinds, start);
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    for (std::uint64_t tick = 1; tick <= 40; ++tick) {
      const Decision decision = controller.next(some_report(plan, seed, tick), plan);
      plan = decision.plan;
      RC_ASSERT(decision.events.size() <= 8u);
      RC_ASSERT(plan.micro_batch_size >= 1);
      RC_ASSERT(plan.micro_batch_size <= plan.batch_size);
      RC_ASSERT(plan.batch_size >= std::min<std::int64_t>(8, start.batch_size));
      RC_ASSERT(plan.batch_size <= 4 * start.batch_size);
      RC_ASSERT(plan.learning_rate_scale > 0);
      for (const LayerPlan& layer : plan.layers) {
        RC_ASSERT(layer.compute != Precision::Bf16 || options.precision.has_bf16);
        RC_ASSERT(layer.compute != Precision::Fp16 || options.precision.has_fp16);
        RC_ASSERT(layer.learning_rate_scale >= 0.1f && layer.learning_rate_scale <= 1.0f);
      }
    }
  }
}

RC_GTEST_PROP(ControllerProperty, GoesOnAfterARestartAsIfNothingHadHappened, ()) {
  const ControlOptions options = some_options();
  const std::vector<LayerKind> kinds = some_layers();
  StepPlan plan = some_start(kinds);
  const StepPlan start = plan;
  Controller whole(options, kinds, start);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto stop = *rc::gen::inRange<std::uint64_t>(1, 30);
  for (std::uint64_t tick = 1; tick <= stop; ++tick) {
    if (const auto smaller = tick % 7 == 0 ? whole.out_of_memory(plan) : std::nullopt)
      plan = *smaller;
    plan = whole.next(some_report(plan, seed, tick), plan).plan;
  }
  StateMap saved;
  for (const StateView& view : whole.state()) saved[view.name] = view;
  Controller resumed(options, kinds, start);
  resumed.restore(saved);
  for (std::uint64_t tick = stop + 1; tick <= stop + 30; ++tick) {
    const StepReport report = some_report(plan, seed, tick);
    const Decision expected = whole.next(report, plan);
    const Decision got = resumed.next(report, plan);
    RC_ASSERT(got.plan == expected.plan);
    RC_ASSERT(got.events == expected.events);
    plan = expected.plan;
  }
  const std::vector<StateView> a = whole.state();
  const std::vector<StateView> b = resumed.state();
  RC_ASSERT(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    RC_ASSERT(
        std::equal(a[i].bytes.begin(), a[i].bytes.end(), b[i].bytes.begin(), b[i].bytes.end()));
}

}  // namespace
}  // namespace triaccel
