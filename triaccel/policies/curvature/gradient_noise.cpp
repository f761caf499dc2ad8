#include "triaccel/policies/curvature/gradient_noise.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace triaccel {
namespace {

// A probe uses some tens of samples; the average covers about four probes.
constexpr double kSmoothing = 0.75;

double averaged(double before, double now, bool first) {
  return first ? now : kSmoothing * before + (1 - kSmoothing) * now;
}

}  // namespace

GradientNoise::GradientNoise(std::size_t layers) : noise_(layers, 0.0) {}

void GradientNoise::add(const CurvatureReport& probe) {
  if (!probe.skipped.empty()) return;
  double total = 0;
  double signal = 0;
  for (const LayerCurvature& layer : probe.layers) {
    if (!std::isfinite(layer.gradient_noise) || !std::isfinite(layer.gradient_signal)) return;
    total += layer.gradient_noise;
    signal += layer.gradient_signal;
  }
  if (!(total > 0)) return;
  const bool first = noise() <= 0;
  for (std::size_t l = 0; l < std::min(noise_.size(), probe.layers.size()); ++l)
    noise_[l] = averaged(noise_[l], std::max(0.0, probe.layers[l].gradient_noise), first);
  signal_ = averaged(signal_, signal, first);
}

double GradientNoise::noise() const { return std::accumulate(noise_.begin(), noise_.end(), 0.0); }

double GradientNoise::signal() const { return std::max(0.0, signal_); }

std::optional<double> GradientNoise::scale() const {
  const double total = noise();
  if (total <= 0 || signal_ <= 0) return std::nullopt;
  return total / signal_;
}

void GradientNoise::save(std::vector<StateView>& state) const {
  state.push_back(number_state("noise", noise_));
  state.push_back(number_state<double>("noise.signal", {signal_}));
}

void GradientNoise::restore(const StateMap& saved) {
  noise_ = numbers_from<double>(saved, "noise", static_cast<std::int64_t>(noise_.size()));
  signal_ = numbers_from<double>(saved, "noise.signal", 1)[0];
}

}  // namespace triaccel
