#include "triaccel/trainer/measure/step_timing.h"

#include <c10/core/Event.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "triaccel/base/clock.h"
#include "triaccel/base/error.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/step/graph_cache.h"
#include "triaccel/trainer/loop/activation_profiler.h"
#include "triaccel/trainer/loop/run_parts.h"

namespace triaccel {
namespace {

double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(place + 0.5)];
}

/// Milliseconds until the device has done `work`: between two events of its stream on a GPU.
double milliseconds_of(const std::function<void()>& work, c10::Device device) {
  if (device.is_cpu()) {
    const Stopwatch watch;
    work();
    return 1e3 * watch.seconds();
  }
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  c10::Event begin(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  c10::Event end(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  begin.record(stream);
  work();
  end.record(stream);
  end.synchronize();
  return begin.elapsedTime(end);
}

/// Warms up, then times `step`. Peaks count from here: captured work takes its memory once, while
/// it is captured.
StepTiming timed(const std::function<void()>& step, const StepTimingOptions& options, RunDevice& on,
                 const LoadedData& data) {
  require(options.samples > 0 && options.steps_per_sample > 0, "time_steps",
          "the number of timings must be positive");
  on.gauge.release_cache();  // of profiles, say
  on.gauge.reset_peak();
  const int warmup =
      options.warmup_steps < 0 ? (on.device.is_cuda() ? 12 : 5) : options.warmup_steps;
  for (int i = 0; i < warmup; ++i) step();
  synchronize(on.device);
  const auto sample = [&] {
    for (int i = 0; i < options.steps_per_sample; ++i) step();
  };
  std::vector<double> timings;
  for (int i = 0; i < options.samples; ++i)
    timings.push_back(milliseconds_of(sample, on.device) / options.steps_per_sample);
  std::ranges::sort(timings);
  const MemoryReport memory = on.gauge.read();
  const std::int64_t data_bytes = data.train->bytes() + data.test->bytes();
  return {.ms = quantile(timings, 0.5),
          .ms_p10 = quantile(timings, 0.1),
          .ms_p90 = quantile(timings, 0.9),
          .peak_allocated_bytes = memory.peak - data_bytes,
          .peak_reserved_bytes = memory.reserved - data_bytes};
}

}  // namespace

StepTiming time_steps(const RunConfig& config, const StepTimingOptions& options) {
  RunParts parts(config);
  Sampler sampler(parts.data.training_ids, static_cast<std::uint64_t>(config.train.seed));
  EpochOrder order(parts.on.device, parts.data.train.get());
  parts.network.module->train();
  if (parts.runner->saved() != nullptr)
    plan_activations(parts.config, parts, order.upcoming(sampler, kProfileSamples));
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
  StepTiming timing = timed(step, options, parts.on, parts.data);
  timing.batch = parts.plan.batch_size;
  timing.saved = parts.runner->collect().saved;
  return timing;
}

StepTiming time_forward_passes(const RunConfig& config, const StepTimingOptions& options,
                               int passes) {
  RunDevice on(config);
  const bool channels_last = wants_channels_last(config, on.device);
  const LoadedData data = load_data_for(config, on, channels_last);
  const Network network = make_network_for(config, data.shape, on, channels_last);
  network.module->train();
  on.gauge.release_cache();
  const at::NoGradGuard no_grad;
  const MemoryPurposeScope purpose(MemoryPurpose::Activations);
  const std::span<const std::int64_t> first(data.training_ids);
  const std::size_t samples = std::min(static_cast<std::size_t>(config.train.batch), first.size());
  const Batch batch =
      gather_unprepared(*data.train, ids_on_device(first.first(samples), on.device));
  const auto forward = [&] {
    for (int i = 0; i < passes; ++i) network.forward(batch.inputs);
  };
  std::optional<SideStreams> side;
  std::optional<GraphCache> graphs;
  if (config.device.graphs != GraphCapture::Off && on.device.is_cuda() && can_capture()) {
    side.emplace();
    graphs.emplace(GraphCacheOptions{}, *side);
  }
  const auto step = [&] {
    if (graphs)
      graphs->run(/*key=*/1, config.train.batch, [&](Enqueued) { forward(); });
    else
      forward();
  };
  return timed(step, options, on, data);
}

}  // namespace triaccel
