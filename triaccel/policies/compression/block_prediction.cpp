#include "triaccel/policies/compression/block_prediction.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "triaccel/base/error.h"
#include "triaccel/policies/memory/held_bytes.h"

namespace triaccel {
namespace {

constexpr const char* kMeters = "compression/block_meters";  // six numbers per tensor
constexpr const char* kSketches = "compression/block_sketches";
constexpr std::size_t kPerMeter = 6;
constexpr std::size_t kPerSketch = std::tuple_size_v<decltype(SavedSketch::values)>;

constexpr int kKindBits = 2;  // of every block

/// Smaller changes are ignored, since every new plan requires capturing graphs again.
constexpr int kLeastChange = 8;  // 256ths

bool is_one_map(const SavedStatistics& tensor, const SavedPlan& plan) {
  return plan.codec == SavedCodec::Frequency && block_maps(tensor.sizes).size() == 1;
}

}  // namespace

BlockTest block_test(const PredictionCounts& found, int block_bits) {
  const std::int64_t plain = found.blocks * block_bits;
  return {.blocks = found.blocks,
          .verified = found.predicted,
          .plain_bytes = plain / 8,
          .predicted_bytes = (plain - found.saved_bits + found.blocks * kKindBits) / 8};
}

std::vector<std::size_t> BlockPrediction::due(std::span<const SavedStatistics> tensors,
                                              std::span<const SavedPlan> plans) {
  if (tensors_.size() != tensors.size()) tensors_.assign(tensors.size(), {});
  std::vector<std::size_t> due;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!is_one_map(tensors[i], plans[i])) continue;
    Tensor& own = tensors_[i];
    const SavedSketch now = sketch_of(tensors[i]);
    if (has_changed(own.profiled, now)) own.meter = after_change(own.meter);
    own.profiled = now;
    if (own.meter.reuse != BlockReuse::Off) due.push_back(i);
  }
  return due;
}

void BlockPrediction::take(std::span<const std::size_t> due, std::span<const BlockTest> tests,
                           std::span<const SavedPlan> plans) {
  require(due.size() == tests.size(), "BlockPrediction::take", "there are ", due.size(),
          " tensors and ", tests.size(), " tests");
  for (std::size_t i = 0; i < due.size(); ++i) {
    Tensor& own = tensors_.at(due[i]);
    own.meter = after_test(own.meter, tests[i], options_);
    const double kinds = static_cast<double>(kKindBits) / plain_block_bits(plans[due[i]]);
    const int wanted = own.meter.reuse == BlockReuse::On
                           ? std::clamp(static_cast<int>(256 * (own.meter.saved + kinds)), 1, 255)
                           : 0;
    if (wanted == 0 || own.predicted == 0 || std::abs(wanted - own.predicted) >= kLeastChange)
      own.predicted = static_cast<std::uint8_t>(wanted);
  }
}

void BlockPrediction::write(std::span<const SavedStatistics> tensors, std::int64_t samples,
                            std::span<SavedPlan> plans, PolicyEvents& events) {
  std::size_t count = 0;
  std::int64_t saved = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    plans[i].predicted = 0;
    if (tensors_.size() != plans.size() || tensors_[i].meter.reuse != BlockReuse::On ||
        !is_one_map(tensors[i], plans[i]))
      continue;
    SavedPlan predicted = plans[i];
    predicted.predicted = tensors_[i].predicted;
    const HeldBytes bytes(tensors[i], samples);
    const std::int64_t fewer = bytes.under(plans[i]) - bytes.under(predicted);
    if (fewer <= 0) continue;
    plans[i] = predicted;
    saved += fewer;
    ++count;
  }
  if (count != last_count_)
    events.push_back(text("block prediction is on for ", count, " saved tensors and saves ", saved,
                          " bytes per pass"));
  last_count_ = count;
}

std::vector<StateView> BlockPrediction::state() const {
  std::vector<double> meters;
  std::vector<float> sketches;
  for (const Tensor& tensor : tensors_) {
    const BlockMeter& meter = tensor.meter;
    meters.insert(meters.end(),
                  {static_cast<double>(meter.reuse), meter.hits, meter.saved,
                   static_cast<double>(meter.tests), static_cast<double>(meter.failures),
                   static_cast<double>(tensor.predicted)});
    sketches.insert(sketches.end(), tensor.profiled.values.begin(), tensor.profiled.values.end());
  }
  return {number_state(kMeters, meters), number_state(kSketches, sketches)};
}

void BlockPrediction::restore(const StateMap& saved) {
  const auto meters = numbers_from<double>(saved, kMeters);
  const auto sketches = numbers_from<float>(saved, kSketches);
  const std::size_t count = meters.size() / kPerMeter;
  if (meters.size() % kPerMeter != 0 || sketches.size() != count * kPerSketch)
    throw StorageError(
        text("the checkpoint's states '", kMeters, "' and '", kSketches, "' do not fit together"));
  std::vector<Tensor> tensors(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double* numbers = meters.data() + i * kPerMeter;
    if (!(numbers[0] >= 0 && numbers[0] <= static_cast<double>(BlockReuse::Off)) ||
        !(numbers[5] >= 0 && numbers[5] <= 255))
      throw StorageError(text("the checkpoint's state '", kMeters, "' holds an unknown choice"));
    tensors[i].meter = {.reuse = static_cast<BlockReuse>(numbers[0]),
                        .hits = numbers[1],
                        .saved = numbers[2],
                        .tests = static_cast<std::int64_t>(numbers[3]),
                        .failures = static_cast<std::int64_t>(numbers[4])};
    tensors[i].predicted = static_cast<std::uint8_t>(numbers[5]);
    std::copy_n(sketches.begin() + static_cast<std::ptrdiff_t>(i * kPerSketch), kPerSketch,
                tensors[i].profiled.values.begin());
  }
  tensors_ = std::move(tensors);
}

}  // namespace triaccel
