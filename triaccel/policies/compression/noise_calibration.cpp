#include "triaccel/policies/compression/noise_calibration.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/policies/compression/codec_rules.h"

namespace triaccel {
namespace {

constexpr double kKept = 0.5;  // weight of the previous average, per measurement
constexpr double kMost = 4;    // the minimum is its inverse

}  // namespace

void NoiseCalibration::add(const CompressionNoise& measured,
                           std::span<const SavedStatistics> tensors,
                           std::span<const double> errors) {
  ensure(tensors.size() == errors.size(), "one error per tensor");
  std::vector<double> predicted(measured.layers.size(), 0.0);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].layer >= 0)
      predicted.at(static_cast<std::size_t>(tensors[i].layer)) +=
          sensitivity_of(tensors[i]) * errors[i];
  const auto counts = [&](std::size_t layer) {
    return predicted[layer] > 0 && measured.layers[layer].variance > 0;
  };
  double all_measured = 0, all_predicted = 0;
  for (std::size_t l = 0; l < predicted.size(); ++l)
    if (counts(l)) {
      all_measured += measured.layers[l].variance;
      all_predicted += predicted[l];
    }
  if (!std::isfinite(all_measured / all_predicted)) return;
  logarithms_.resize(predicted.size(), std::nan(""));
  for (std::size_t l = 0; l < predicted.size(); ++l) {
    if (!counts(l)) continue;
    const double now = std::log(measured.layers[l].variance / all_measured) -
                       std::log(predicted[l] / all_predicted);
    double& known = logarithms_[l];
    known = std::isnan(known) ? now : kKept * known + (1 - kKept) * now;
  }
}

double NoiseCalibration::of_layer(std::int64_t layer) const {
  if (layer < 0 || layer >= static_cast<std::int64_t>(logarithms_.size())) return 1;
  const double known = logarithms_[static_cast<std::size_t>(layer)];
  return std::isnan(known) ? 1 : std::clamp(std::exp(known), 1 / kMost, kMost);
}

std::vector<SavedStatistics> NoiseCalibration::calibrated(
    std::span<const SavedStatistics> tensors) const {
  std::vector<SavedStatistics> all(tensors.begin(), tensors.end());
  for (SavedStatistics& tensor : all)
    tensor.sensitivity = sensitivity_of(tensor) * of_layer(tensor.layer);
  return all;
}

StateView NoiseCalibration::state(std::string name) const {
  return number_state(std::move(name), logarithms_);
}

void NoiseCalibration::restore(const StateMap& saved, const std::string& name) {
  logarithms_ = numbers_from<double>(saved, name);
}

}  // namespace triaccel
