#include "triaccel/trainer/loop/run_parts.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/trainer/loop/control_setup.h"

namespace triaccel {
namespace {

/// One way to need less memory.
struct Means {
  std::string what;
  RunConfig config;  // with all before it
};

std::vector<Means> means_for(const RunParts& parts) {
  std::vector<Means> means;
  RunConfig config = parts.config;
  const auto add = [&](const char* what) { means.push_back({what, config}); };
  const bool on_gpu = parts.on.device.is_cuda();
  if (on_gpu && parts.method.per_layer && config.activations.keep.saves_exactly() &&
      !config.activations.recompute_norms) {
    config.activations.recompute_norms = true;
    add("outputs of batch norms are recomputed");
  }
  if (on_gpu && config.device.graphs != GraphCapture::Off) {
    config.device.graphs = GraphCapture::Off;
    add("steps are not captured in CUDA graphs");
  }
  if (config.device.lossy == LossyMeans::Auto && has_moments(config.train.optimizer) &&
      config.train.optimizer_state == StateFormat::Fp32) {
    config.train.optimizer_state = StateFormat::Fp8;
    add("the optimizer's state is in 8 bits");
  }
  return means;
}

/// Whether a step of such passes fits with the current runner.
bool passes_fit(RunParts& parts, std::int64_t pass, std::int64_t passes) {
  const auto samples = static_cast<std::int64_t>(parts.data.training_ids.size());
  StepPlan plan = parts.plan;
  plan.micro_batch_size = std::min(pass, samples);
  plan.batch_size = std::min(pass * passes, samples);
  const std::vector<std::int64_t> first(parts.data.training_ids.begin(),
                                        parts.data.training_ids.begin() + plan.batch_size);
  parts.data.train->prepare(first);
  const at::Tensor ids = ids_on_device(first, parts.on.device);
  parts.on.gauge.release_cache();
  try {
    parts.runner->rehearse(plan, *parts.data.train, ids,
                           {.augment = augments(parts.config),
                            .seed = static_cast<std::uint64_t>(parts.config.train.seed)});
  } catch (const OutOfMemory&) {
    return false;
  }
  return true;
}

/// Whether some step fits: of the smallest passes, whose gradients are summed unless a batch may
/// shrink to one of them, or of one pass, which has no sums.
bool some_step_fits(RunParts& parts) {
  const bool shrinks = parts.method.per_layer && parts.config.control.batch == BatchMode::Elastic;
  return passes_fit(parts, smallest_pass_of(parts.network), shrinks ? 1 : 2) ||
         (!shrinks && passes_fit(parts, parts.plan.batch_size, 1));
}

bool fits(RunParts& parts, const RunConfig& config) {
  try {
    return catching_out_of_memory([&] {
      parts.make_runner(config);
      return some_step_fits(parts);
    });
  } catch (const OutOfMemory&) {
    return false;
  }
}

}  // namespace

std::string fit_memory(RunParts& parts) {
  const auto done = [&](std::string what) {
    parts.on.gauge.release_cache();
    parts.on.gauge.reset_peak();
    return what;
  };
  if (fits(parts, parts.config)) return done("");
  std::string taken;
  for (Means& means : means_for(parts)) {
    taken += (taken.empty() ? "" : ", ") + means.what;
    if (!fits(parts, means.config)) continue;
    parts.config = std::move(means.config);
    return done(text("to fit in ", byte_text(parts.on.budget_bytes), ": ", taken));
  }
  parts.make_runner(parts.config);
  return done("");
}

}  // namespace triaccel
