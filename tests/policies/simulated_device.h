#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "triaccel/base/random.h"
#include "triaccel/policies/controller.h"

namespace triaccel {

/// A device whose memory answers to plans: M = fixed + samples of a pass * bytes by precision, give
/// or take some noise. Above its limit it raises out of memory, as often as it takes.
struct SimulatedDevice {
  double fixed = 0;        // bytes, whatever the batch
  double sample_fp32 = 0;  // bytes of a sample with every layer in FP32
  double noise = 0;        // relative, either way
  double limit = 0;        // bytes, as reported
  double hidden = 0;       // bytes a tenant took that the limit does not tell of
  bool purposes_known = false;
  std::uint64_t seed = 0;
  std::uint64_t draws = 0;

  double bytes_of(const StepPlan& plan) {
    double width = 0;
    for (const LayerPlan& layer : plan.layers) width += bytes_per_element(layer.compute) / 4.0;
    width = plan.layers.empty() ? 1 : width / static_cast<double>(plan.layers.size());
    const std::int64_t passes =
        (plan.batch_size + plan.micro_batch_size - 1) / plan.micro_batch_size;
    const std::int64_t pass = (plan.batch_size + passes - 1) / passes;
    const double wobble = 2.0 * unit_float(random_words(seed, draws++).words[0]) - 1;
    return (fixed + sample_fp32 * width * static_cast<double>(pass)) * (1 + noise * wobble);
  }
};

/// One control interval on the device: out of memory is answered by the controller until a plan
/// fits, and the report speaks of the one that did.
struct SimulatedTick {
  StepReport report = {};
  StepPlan ran = {};
  double accepted_bytes = 0;
};

inline SimulatedTick run_interval(SimulatedDevice& device, Controller& controller, StepPlan plan) {
  SimulatedTick tick;
  for (;;) {
    tick.accepted_bytes = device.bytes_of(plan);
    if (tick.accepted_bytes <= device.limit - device.hidden) break;
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
  tick.report.memory.peak = static_cast<std::int64_t>(
      tick.report.memory_retries > 0 ? device.limit : tick.accepted_bytes);
  tick.report.memory.reserved = tick.report.memory.peak;
  if (device.purposes_known)
    tick.report.memory.peak_by_purpose[static_cast<std::size_t>(MemoryPurpose::Weights)] =
        static_cast<std::int64_t>(device.fixed / 2);
  return tick;
}

}  // namespace triaccel
