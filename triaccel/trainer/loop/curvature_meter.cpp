#include "triaccel/trainer/loop/curvature_meter.h"

#include <torch/torch.h>

#include <cstddef>
#include <iterator>
#include <utility>

#include "triaccel/base/clock.h"
#include "triaccel/base/random.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/trainer/loop/control_setup.h"
#include "triaccel/trainer/loop/network_state.h"

namespace triaccel {
namespace {

constexpr std::uint64_t kProbeKey = 0x70726f6265;  // of captured work; no plan's

constexpr const char* kProbeNumbers = "pending_probe";  // empty: none; else step, batch
constexpr const char* kProbeLayers = "pending_probe.layers";
constexpr std::size_t kBesideEigenvalues = 3;  // their count, noise, signal

}  // namespace

void PendingProbe::start(CurvatureReport report, std::future<std::vector<LayerCurvature>> layers) {
  report_ = std::move(report);
  layers_ = std::move(layers);
}

void PendingProbe::finish() const {
  if (!layers_.valid()) return;
  const Stopwatch watch;
  report_->layers = layers_.get();
  report_->seconds += watch.seconds();
}

std::optional<CurvatureReport> PendingProbe::take() {
  finish();
  return std::exchange(report_, {});
}

std::vector<StateView> PendingProbe::state() const {
  finish();
  std::vector<std::int64_t> numbers;
  std::vector<double> layers;
  if (report_) {
    numbers = {report_->step, report_->batch};
    for (const LayerCurvature& layer : report_->layers) {
      layers.push_back(static_cast<double>(layer.eigenvalues.size()));
      layers.push_back(layer.gradient_noise);
      layers.push_back(layer.gradient_signal);
      layers.insert(layers.end(), layer.eigenvalues.begin(), layer.eigenvalues.end());
    }
  }
  return {number_state(kProbeNumbers, numbers), number_state(kProbeLayers, layers)};
}

void PendingProbe::restore(const StateMap& saved) {
  layers_ = {};
  report_.reset();
  if (!saved.contains(kProbeNumbers)) return;  // written by a version that waited for every probe
  const auto numbers = numbers_from<std::int64_t>(saved, kProbeNumbers);
  if (numbers.empty()) return;
  const auto values = numbers_from<double>(saved, kProbeLayers);
  const auto broken = [] {
    return StorageError("the checkpoint's state 'pending_probe' is truncated");
  };
  if (numbers.size() != 2) throw broken();
  CurvatureReport report{
      .mode = CurvatureMode::FisherGram, .step = numbers[0], .batch = numbers[1]};
  for (std::size_t i = 0; i < values.size();) {
    if (values.size() - i < kBesideEigenvalues) throw broken();
    const auto count = static_cast<std::size_t>(values[i]);
    LayerCurvature layer{.gradient_noise = values[i + 1], .gradient_signal = values[i + 2]};
    i += kBesideEigenvalues;
    if (values.size() - i < count) throw broken();
    layer.eigenvalues.assign(values.begin() + static_cast<std::ptrdiff_t>(i),
                             values.begin() + static_cast<std::ptrdiff_t>(i + count));
    i += count;
    report.layers.push_back(std::move(layer));
  }
  report_ = std::move(report);
}

CurvatureMeter::CurvatureMeter(const RunConfig& config, RunParts& parts)
    : CurvatureMeter(config, parts, curvature_options(config)) {}

CurvatureMeter::CurvatureMeter(const RunConfig& config, RunParts& parts,
                               const CurvatureOptions& options)
    : parts_(parts), options_(options), label_smoothing_(config.train.label_smoothing) {
  if (!probes_curvature(config, parts)) return;
  probe_ = std::make_unique<CurvatureProbe>(ProbeNetwork{.forward = parts.network.forward,
                                                         .parameters = parameters_of(parts.network),
                                                         .weights = layer_weights(parts.network),
                                                         .buffers = buffers_of(parts.network)},
                                            options_, parts.on.device);
}

std::optional<CurvatureReport> CurvatureMeter::probe(const std::function<at::Tensor()>& ids,
                                                     std::int64_t step) {
  const MemoryPurposeScope purpose(MemoryPurpose::Workspace);
  try {
    const at::Tensor samples = catching_out_of_memory(ids);
    if (replay_ != nullptr && samples.numel() == options_.batch) {  // not at an epoch's end
      try {
        replay_probe(samples, step);
        return {};
      } catch (const OutOfMemory&) {
        replays_ = false;  // the other way can do with fewer samples
        replay_.reset();
      }
    }
    CurvatureReport report = probe_eagerly(samples, step);
    if (!can_replay() || !report.skipped.empty()) return report;
    pending_.start(std::move(report));  // decided upon when a captured one would be
    return {};
  } catch (const OutOfMemory& error) {
    return CurvatureReport{.mode = options_.mode, .step = step, .skipped = error.what()};
  }
}

bool CurvatureMeter::can_replay() const {
  return parts_.runner->graphs() != nullptr && options_.mode == CurvatureMode::FisherGram;
}

CurvatureReport CurvatureMeter::probe_eagerly(const at::Tensor& ids, std::int64_t step) {
  CurvatureReport report;
  const auto work = [&] {
    const Batch batch = parts_.data.train->gather(ids, {});
    report = probe_->run(batch.inputs, batch.targets, label_smoothing_, step);
  };
  // The memory of captured steps is free between them; but what hessian mode keeps from one probe
  // to the next must not lie there.
  if (can_replay())
    parts_.runner->graphs()->run_once(work);
  else
    catching_out_of_memory(work);
  const bool whole = report.skipped.empty() && report.batch == ids.numel();
  replays_ = replays_ && can_replay() && whole && !probe_->drew();
  if (replays_ && ids.numel() == options_.batch)
    catching_out_of_memory([&] {
      replay_ = std::make_unique<FisherReplay>(probe_->network(), options_, parts_.on.device);
      probe_ids_ = at::empty_like(ids);
    });
  // What the probe took counts for the run, but not for how a batch's memory grows.
  parts_.on.gauge.release_cache();
  return report;
}

void CurvatureMeter::replay_probe(const at::Tensor& ids, std::int64_t step) {
  const Stopwatch watch;
  const auto* const data = parts_.data.train.get();
  probe_ids_.copy_(ids);
  parts_.runner->graphs()->run(
      mixed_hash(kProbeKey, reinterpret_cast<std::uintptr_t>(data)), ids.numel(),
      [&](Enqueued enqueued) {
        const Batch batch = data->gather(probe_ids_, {});
        replay_->enqueue(
            {.inputs = batch.inputs, .targets = batch.targets, .label_smoothing = label_smoothing_},
            enqueued == Enqueued::Captured);
      });
  auto layers = replay_->read();
  pending_.start(
      {.mode = options_.mode, .step = step, .batch = ids.numel(), .seconds = watch.seconds()},
      std::move(layers));
}

std::vector<StateView> CurvatureMeter::state() const {
  std::vector<StateView> all = pending_.state();
  if (probe_) std::ranges::move(probe_->state(), std::back_inserter(all));
  return all;
}

void CurvatureMeter::restore(const StateMap& saved) {
  if (probe_) probe_->restore(saved);
  pending_.restore(saved);
}

}  // namespace triaccel
