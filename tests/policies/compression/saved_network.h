#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "triaccel/core/saved_statistics.h"

namespace triaccel {

/// Bands whose energy falls by `fall` from one to the next and whose ranges are `crest` deviations
/// wide, together of variance 1.
inline TransformStatistics falling_bands(std::uint8_t block, double fall, double crest = 6) {
  constexpr std::array<double, kFrequencyBands> k8 = {1, 5, 9, 21, 28}, k7 = {1, 5, 9, 13, 21},
                                                k4 = {1, 2, 3, 4, 6};
  const auto& sizes = block == 8 ? k8 : block == 7 ? k7 : k4;
  TransformStatistics statistics{.measured = true};
  double sum = 0, count = 0;
  for (std::size_t k = 0; k < kFrequencyBands; ++k) {
    statistics.bands[k].mean_square = std::pow(fall, static_cast<double>(k));
    sum += sizes[k] * statistics.bands[k].mean_square;
    count += sizes[k];
  }
  for (BandStatistics& band : statistics.bands) {
    band.mean_square *= count / sum;
    band.squared_range = crest * crest * band.mean_square;
  }
  return statistics;
}

/// A tensor of [channels, side, side] a sample, of variance 1.
inline SavedStatistics saved_tensor(SavedClass kind, std::int64_t channels, std::int64_t side,
                                    double fall = 1) {
  SavedStatistics tensor{.kind = kind, .sizes = {1, channels, side, side}, .variance = 1};
  tensor.transforms[0] = {.measured = true, .bands = {{{.mean_square = 1, .squared_range = 32}}}};
  for (std::size_t t = 1; t < kTransformBlocks.size(); ++t)
    tensor.transforms[t] = falling_bands(kTransformBlocks[t], fall);
  if (kind == SavedClass::Positive) {
    tensor.nonzero_share = 0.5;
    tensor.mask_too = true;
    tensor.transforms[0].bands[0] = {.mean_square = 1.5, .squared_range = 16};
  }
  return tensor;
}

/// Norm and ReLU after each of so many convolutions, three stages of halving sides.
inline std::vector<SavedStatistics> saved_resnet(int layers) {
  std::vector<SavedStatistics> tensors;
  for (int layer = 0; layer < layers; ++layer) {
    const int stage = 3 * layer / layers;
    const std::int64_t channels = 16 << stage, side = 32 >> stage;
    tensors.push_back(saved_tensor(SavedClass::NormInput, channels, side, stage == 0 ? 0.1 : 0.5));
    tensors.push_back(saved_tensor(SavedClass::Statistics, 2 * channels, 1));
    tensors.push_back(saved_tensor(SavedClass::Positive, channels, side));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].entry = static_cast<std::int64_t>(i);
  for (SavedStatistics& tensor : tensors) tensor.per_sample = tensor.kind != SavedClass::Statistics;
  return tensors;
}

}  // namespace triaccel
