#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "triaccel/base/random.h"
#include "triaccel/policies/controller.h"
#include "triaccel/policies/memory/pass_sizes.h"

namespace triaccel {

/// A device whose memory answers to plans: M = fixed + samples of a pass * bytes by precision, give
/// or take some noise. Above its limit it raises out of memory, as often as it takes.
struct SimulatedDevice {
  double fixed = 0;        // bytes, whatever the batch
  double sample_fp32 = 0;  // bytes of a sample with every layer in FP32
  double noise = 0;        // relative, either way
  double limit = 0;        // bytes, as reported
  double hidden = 0;       // bytes a tenant took that the limit does not tell of
  double known = 0;        // share of the fixed bytes whose purpose is reported
  bool pools = false;      // memory once taken stays taken until passes get smaller
  std::uint64_t seed = 0;
  std::uint64_t draws = 0;
  double held = 0;            // by pools
  std::int64_t held_for = 0;  // samples of a pass

  /// Bytes a sample adds to a pass.
  double sample_bytes(const StepPlan& plan) const {
    double width = 0;
    for (const LayerPlan& layer : plan.layers) width += bytes_per_element(layer.compute) / 4.0;
    return sample_fp32 *
           (plan.layers.empty() ? 1 : width / static_cast<double>(plan.layers.size()));
  }

  double bytes_of(const StepPlan& plan) {
    const double wobble = 2.0 * unit_float(random_words(seed, draws++).words[0]) - 1;
    const auto pass = static_cast<double>(samples_per_pass(plan));
    return (fixed + sample_bytes(plan) * pass) * (1 + noise * wobble);
  }

  /// What the gauge shows after a plan has run in so many bytes.
  double shown(const StepPlan& plan, double bytes) {
    if (!pools) return bytes;
    const std::int64_t pass = samples_per_pass(plan);
    if (pass != held_for) held = pass < held_for ? bytes : std::max(held, bytes);
    held_for = pass;
    return held;
  }
};

/// One control interval on the device: out of memory is answered by the controller until a plan
/// fits, and the report speaks of the one that did.
struct SimulatedTick {
  StepReport report = {};
  StepPlan ran = {};
};

inline SimulatedTick run_interval(SimulatedDevice& device, Controller& controller, StepPlan plan) {
  SimulatedTick tick;
  double bytes = 0;
  for (;;) {
    bytes = device.bytes_of(plan);
    if (bytes <= device.limit - device.hidden) break;
    const auto smaller = controller.out_of_memory(plan);
    if (!smaller) throw std::runtime_error("the simulated device is too small for one sample");
    plan = *smaller;
    ++tick.report.memory_retries;
  }
  tick.ran = plan;
  tick.report.interval_steps = 25;
  tick.report.interval_samples = 25 * plan.batch_size;
  tick.report.learning_rate = 0.1;
  tick.report.memory.limit = static_cast<std::int64_t>(device.limit);
  // What failed left its mark: the peak of such an interval is the limit itself.
  const double shown = device.shown(plan, bytes);
  tick.report.memory.peak =
      static_cast<std::int64_t>(tick.report.memory_retries > 0 ? device.limit : shown);
  tick.report.memory.reserved = tick.report.memory.peak;
  tick.report.memory.peak_by_purpose[static_cast<std::size_t>(MemoryPurpose::Weights)] =
      static_cast<std::int64_t>(device.known * device.fixed);
  return tick;
}

}  // namespace triaccel
