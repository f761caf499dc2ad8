#include "triaccel/trainer/measure/largest_batch.h"

#include <torch/torch.h>

#include <algorithm>

#include "triaccel/base/error.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/trainer/loop/activation_profiler.h"
#include "triaccel/trainer/loop/run_parts.h"

namespace triaccel {
namespace {

constexpr std::int64_t kPrecision = 32;  // a part of the batch
constexpr int kSteps = 2;                // the second finds what the first has left behind

void take_steps(const RunConfig& config, RunParts& parts) {
  Sampler sampler(parts.data.training_ids, static_cast<std::uint64_t>(config.train.seed));
  EpochOrder order(parts.on.device, parts.data.train.get());
  parts.network.module->train();
  if (parts.runner->saved() != nullptr)
    plan_activations(config, parts, order.upcoming(sampler, kProfileSamples));
  const at::Tensor ids = order.upcoming(sampler, parts.plan.batch_size);
  for (int i = 0; i < kSteps; ++i)
    parts.runner->run(parts.plan, *parts.data.train, ids,
                      {.augment = augments(config),
                       .epoch = sampler.epoch(),
                       .seed = static_cast<std::uint64_t>(config.train.seed)},
                      config.train.lr);
  synchronize(parts.on.device);
}

bool fits(RunConfig config, std::int64_t batch, std::int64_t budget_bytes) {
  config.train.batch = batch;
  RunParts parts(config, {}, {}, {}, UnderBudget::KeepAll);
  const std::int64_t data_bytes = parts.data.train->bytes() + parts.data.test->bytes();
  parts.on.gauge.set_limit(budget_bytes + data_bytes);
  try {
    catching_out_of_memory([&] { take_steps(config, parts); });
    return true;
  } catch (const OutOfMemory&) {
    return false;
  }
}

std::int64_t samples_of(const RunConfig& config) {
  const RunDevice on(config);
  return static_cast<std::int64_t>(
      load_data_for(config, on, /*channels_last=*/false).training_ids.size());
}

}  // namespace

std::int64_t largest_batch(const RunConfig& config, std::int64_t budget_bytes) {
  require(budget_bytes > 0, "largest_batch", "the budget must be positive, got ", budget_bytes);
  RunConfig complete = resolved(config);
  complete.device.budget = {};  // of the steps alone, and set once the rest is there
  const std::int64_t most = samples_of(complete);
  std::int64_t fitting = 0, failing = most + 1;
  for (std::int64_t next = std::min(complete.train.batch, most); next > fitting;
       next = std::min(2 * fitting, most)) {
    if (!fits(complete, next, budget_bytes)) {
      failing = next;
      break;
    }
    fitting = next;
  }
  while (failing - fitting > std::max<std::int64_t>(1, fitting / kPrecision)) {
    const std::int64_t middle = fitting + (failing - fitting) / 2;
    (fits(complete, middle, budget_bytes) ? fitting : failing) = middle;
  }
  return fitting;
}

}  // namespace triaccel
