#include "triaccel/trainer/loop/run_summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "triaccel/base/version.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/telemetry/records/efficiency_score.h"
#include "triaccel/trainer/loop/network_state.h"

namespace triaccel {

RunSummary run_summary(const RunConfig& config, const RunParts& parts, const RunProgress& progress,
                       const RunCompression* compression, const StepPlan& plan, std::string status,
                       const std::optional<EvaluationReport>& last) {
  const std::vector<double>& epochs = progress.last_epoch_seconds;
  const double epoch_total = std::accumulate(epochs.begin(), epochs.end(), 0.0);
  const auto layers_in = [&](Precision precision) {
    return std::ranges::count(plan.layers, precision, &LayerPlan::compute);
  };
  const std::string stem = config.model.name.starts_with("resnet") ? config.model.stem.name() : "";
  RunSummary summary{.status = std::move(status),
                     .method = config.train.method,
                     .model = parts.network.name,
                     .stem = stem,
                     .data = config.data.name,
                     .device = device_text(parts.on.device),
                     .commit = std::string(build_commit()),
                     .seed = static_cast<std::uint64_t>(config.train.seed),
                     .accuracy = last ? 100 * last->accuracy : std::nan(""),
                     .loss = last ? last->loss : std::nan(""),
                     .best_accuracy = 100 * progress.best_accuracy,
                     .epochs = static_cast<double>(progress.samples) /
                               static_cast<double>(parts.data.training_ids.size()),
                     .seconds = progress.seconds,
                     .seconds_per_epoch = epochs.empty()
                                              ? progress.epoch_seconds
                                              : epoch_total / static_cast<double>(epochs.size()),
                     .samples = progress.samples,
                     .steps = progress.step,
                     .peak_bytes = progress.peak_bytes,
                     .peak_reserved_bytes = progress.peak_reserved_bytes,
                     .data_bytes = parts.data.train->bytes() + parts.data.test->bytes(),
                     .budget_bytes = parts.on.budget_bytes,
                     .batch_final = plan.batch_size,
                     .batch_largest = progress.largest_batch,
                     .skipped_steps = progress.skipped_steps,
                     .memory_retries = progress.memory_retries,
                     .rollbacks = progress.rollbacks,
                     .plan_changes = progress.plan_changes,
                     .curvature_probes = progress.curvature_probes,
                     .control_seconds = progress.control_seconds,
                     .layers_fp32 = layers_in(Precision::Fp32),
                     .layers_bf16 = layers_in(Precision::Bf16),
                     .layers_fp16 = layers_in(Precision::Fp16),
                     .parameters = parameter_count(parts.network)};
  if (const GraphCache* graphs = parts.runner->graphs()) {
    summary.graph_replays = graphs->counts().replays;
    summary.graph_captures = graphs->counts().captures;
  }
  if (compression != nullptr) {
    const CodeNoise& noise = compression->noise();
    if (!noise.layers.empty()) summary.code_noise = noise.code_variance / noise.batch_variance;
    summary.code_noise_by_layer = noise.shares();
    summary.predictions = compression->predictions();
    summary.predicted_away_bytes = compression->predicted_away_bytes();
    summary.prediction_seconds = compression->prediction_seconds();
  }
  summary.score = efficiency_score(summary);
  return summary;
}

}  // namespace triaccel
