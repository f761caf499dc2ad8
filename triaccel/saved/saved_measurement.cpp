#include "triaccel/saved/saved_measurement.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>

#include "triaccel/core/frequency_bands.h"
#include "triaccel/kernels/compression/frequency/frequency_codec.h"

namespace triaccel {
namespace {

constexpr std::size_t kGroup = 256;  // non-zeros that share a range

/// Where the channels of a tensor lie: the second dimension of maps, the last one elsewhere; its
/// rows, where a norm goes by them.
struct Channels {
  std::size_t count = 1;
  std::size_t inner = 1;  // elements between neighbours
};

Channels channels_of(const std::vector<std::int64_t>& sizes, bool by_rows) {
  Channels channels;
  if (sizes.size() < 2) return channels;
  if (by_rows) {
    channels.inner = static_cast<std::size_t>(sizes.back());
    for (std::size_t d = 0; d + 1 < sizes.size(); ++d)
      channels.count *= static_cast<std::size_t>(sizes[d]);
    return channels;
  }
  const std::size_t at = sizes.size() == 4 ? 1 : sizes.size() - 1;
  channels.count = static_cast<std::size_t>(sizes[at]);
  for (std::size_t d = at + 1; d < sizes.size(); ++d)
    channels.inner *= static_cast<std::size_t>(sizes[d]);
  return channels;
}

/// Of one channel's elements.
struct ChannelMeasure {
  double variance = 0;
  float lowest = std::numeric_limits<float>::infinity();
  float highest = -std::numeric_limits<float>::infinity();
};

std::vector<ChannelMeasure> measure_channels(const SavedSample& sample, bool by_rows) {
  const Channels channels = channels_of(sample.sizes, by_rows);
  std::vector<ChannelMeasure> measures(channels.count);
  std::vector<double> sums(channels.count), squares(channels.count);
  for (std::size_t i = 0; i < sample.values.size(); ++i) {
    const std::size_t channel = i / channels.inner % channels.count;
    const auto value = static_cast<double>(sample.values[i]);
    sums[channel] += value;
    squares[channel] += value * value;
    ChannelMeasure& measure = measures[channel];
    measure.lowest = std::min(measure.lowest, sample.values[i]);
    measure.highest = std::max(measure.highest, sample.values[i]);
  }
  const double each =
      static_cast<double>(sample.values.size()) / static_cast<double>(channels.count);
  for (std::size_t c = 0; c < channels.count; ++c)
    measures[c].variance = std::max(0.0, (squares[c] - sums[c] * sums[c] / each) / each);
  return measures;
}

double mean_variance(const std::vector<ChannelMeasure>& channels) {
  double sum = 0;
  for (const ChannelMeasure& channel : channels) sum += channel.variance;
  return sum / static_cast<double>(channels.size());
}

/// What a norm that divides each channel or row by its deviation makes of compressed values that do
/// not.
void measure_unevenness(SavedStatistics& tensor, const std::vector<ChannelMeasure>& channels) {
  constexpr double norm_epsilon = 1e-5;  // what norms add to a variance
  double inverses = 0, squared_ranges = 0;
  for (const ChannelMeasure& channel : channels) {
    const double inverse = 1 / (channel.variance + norm_epsilon);
    const auto range = static_cast<double>(channel.highest - channel.lowest);
    inverses += inverse;
    squared_ranges += range * range * inverse;
  }
  const auto count = static_cast<double>(channels.size());
  tensor.unevenness = std::max(1.0, tensor.variance * inverses / count);
  tensor.levelled_squared_range = squared_ranges / count;
}

/// Mean squared range of groups of neighbours that are not zero.
double nonzero_squared_range(const std::vector<float>& values) {
  double sum = 0, groups = 0;
  float low = 0, high = 0;
  std::size_t held = 0;
  const auto close = [&] {
    if (held == 0) return;
    sum += static_cast<double>(high - low) * static_cast<double>(high - low);
    groups += 1;
    held = 0;
  };
  for (const float value : values) {
    if (value == 0) continue;
    low = held == 0 ? value : std::min(low, value);
    high = held == 0 ? value : std::max(high, value);
    if (++held == kGroup) close();
  }
  close();
  return groups > 0 ? sum / groups : 0;
}

void measure(SavedStatistics& tensor, const SavedSample& sample) {
  if (!std::ranges::all_of(sample.values, [](float v) { return std::isfinite(v); })) return;
  const std::vector<ChannelMeasure> channels = measure_channels(sample, tensor.by_rows);
  tensor.variance = mean_variance(channels);
  if (tensor.kind == SavedClass::NormInput && tensor.levels(/*samples=*/1) > 0)
    measure_unevenness(tensor, channels);
  tensor.nonzero_squared_range = nonzero_squared_range(sample.values);
  const auto zeros = std::ranges::count(sample.values, 0.0f);
  tensor.nonzero_share = 1 - static_cast<double>(zeros) / static_cast<double>(sample.values.size());
  const std::vector<BlockMap> maps = block_maps(sample.sizes);
  BlockMap flat{.images = 1,
                .channels = 1,
                .rows = 1,
                .columns = static_cast<std::int64_t>(sample.values.size()),
                .column_stride = 1};
  for (std::size_t t = 0; t < kTransformBlocks.size(); ++t) {
    const int block = kTransformBlocks[t];
    if (block != 0 && maps.empty()) continue;
    const BlockMap& map = block == 0 ? flat : maps.front();
    if (block != 0 && std::max(map.rows, map.columns) < 2) continue;  // nothing to transform
    tensor.transforms[t] = kernels::cpu::transform_statistics(map, kernels::FloatType::F32,
                                                              sample.values.data(), block);
  }
}

}  // namespace

void measure_saved(std::span<SavedStatistics> tensors, const std::vector<SavedSample>& samples) {
  std::map<std::int64_t, const SavedSample*> by_entry;
  for (const SavedSample& sample : samples)
    if (!sample.values.empty()) by_entry[sample.entry] = &sample;
  for (SavedStatistics& tensor : tensors)
    if (const auto found = by_entry.find(tensor.entry); found != by_entry.end())
      measure(tensor, *found->second);
}

void measure_gains(std::span<SavedStatistics> tensors, const SavedCensus& census,
                   const std::vector<ErrorGain>& gains) {
  std::map<std::int64_t, SavedStatistics*> by_entry;
  for (SavedStatistics& tensor : tensors) by_entry[tensor.entry] = &tensor;
  for (const ErrorGain& gain : gains) {
    const bool measured = std::isfinite(gain.gain) && gain.weight_gradient_square > 0;
    const auto found =
        by_entry.find(census.entries.at(static_cast<std::size_t>(gain.entry)).same_as);
    if (!measured || found == by_entry.end()) continue;
    SavedStatistics& tensor = *found->second;
    if (gain.gain * tensor.weight_gradient_square < tensor.error_gain * gain.weight_gradient_square)
      continue;
    tensor.weight_gradient_square = gain.weight_gradient_square;
    tensor.error_gain = gain.gain;
  }
}

}  // namespace triaccel
