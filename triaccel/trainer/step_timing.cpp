#include "triaccel/trainer/step_timing.h"

#include <torch/torch.h>

#include <algorithm>
#include <vector>

#include "triaccel/base/clock.h"
#include "triaccel/base/error.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/data/sampler.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/trainer/run_parts.h"

namespace triaccel {
namespace {

double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(place + 0.5)];
}

}  // namespace

StepTiming time_steps(const RunConfig& config, const StepTimingOptions& options) {
  require(options.samples > 0 && options.steps_per_sample > 0, "time_steps",
          "there must be something to time");
  RunParts parts(config);
  Sampler sampler(parts.data.training_ids, static_cast<std::uint64_t>(config.train.seed));
  EpochOrder order(parts.on.device);
  require(parts.plan.batch_size <= sampler.samples_per_epoch(), "bench step", "a batch of ",
          parts.plan.batch_size, " is more than the ", sampler.samples_per_epoch(),
          " samples of the set");
  parts.network.module->train();
  const auto step = [&] {
    // Only whole batches are timed: the short one at the end of an epoch is passed over.
    if (sampler.samples_per_epoch() - sampler.cursor() < parts.plan.batch_size)
      sampler.take(sampler.samples_per_epoch() - sampler.cursor());
    const at::Tensor ids = order.upcoming(sampler, parts.plan.batch_size);
    parts.runner->run(parts.plan, *parts.data.train, ids,
                      {.augment = augments(config),
                       .epoch = sampler.epoch(),
                       .seed = static_cast<std::uint64_t>(config.train.seed)},
                      config.train.lr, config.zeroth_order.lr);
    sampler.take(ids.numel());
  };
  // Peaks count from here: a captured step takes its memory once, while it is captured.
  parts.on.gauge.reset_peak();
  const int warmup =
      options.warmup_steps < 0 ? (parts.on.device.is_cuda() ? 12 : 5) : options.warmup_steps;
  for (int i = 0; i < warmup; ++i) step();
  synchronize(parts.on.device);
  std::vector<double> timings;
  for (int i = 0; i < options.samples; ++i) {
    const Stopwatch watch;
    for (int j = 0; j < options.steps_per_sample; ++j) step();
    synchronize(parts.on.device);
    timings.push_back(1e3 * watch.seconds() / options.steps_per_sample);
  }
  std::ranges::sort(timings);
  const MemoryReport memory = parts.on.gauge.read();
  const std::int64_t data_bytes = parts.data.train->bytes() + parts.data.test->bytes();
  return {.ms = quantile(timings, 0.5),
          .ms_p10 = quantile(timings, 0.1),
          .ms_p90 = quantile(timings, 0.9),
          .peak_allocated_bytes = memory.peak - data_bytes,
          .peak_reserved_bytes = memory.reserved - std::max(parts.data_reserved_bytes, data_bytes)};
}

}  // namespace triaccel
