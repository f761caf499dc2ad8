#include "triaccel/trainer/loop/pending_probe.h"

#include <cstddef>
#include <utility>

#include "triaccel/base/clock.h"

namespace triaccel {
namespace {

constexpr const char* kNumbers = "pending_probe";  // empty: none; else step, batch
constexpr const char* kLayers = "pending_probe.layers";
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
  return {number_state(kNumbers, numbers), number_state(kLayers, layers)};
}

void PendingProbe::restore(const StateMap& saved) {
  layers_ = {};
  report_.reset();
  if (!saved.contains(kNumbers)) return;  // written by a version that waited for every probe
  const auto numbers = numbers_from<std::int64_t>(saved, kNumbers);
  if (numbers.empty()) return;
  const auto values = numbers_from<double>(saved, kLayers);
  const auto broken = [] { return StorageError("the checkpoint's state 'pending_probe' is cut"); };
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

}  // namespace triaccel
