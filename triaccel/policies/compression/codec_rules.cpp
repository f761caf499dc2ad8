#include "triaccel/policies/compression/codec_rules.h"

#include <algorithm>

#include "triaccel/core/codec_registry.h"
#include "triaccel/policies/compression/band_table.h"

namespace triaccel {
namespace {

constexpr std::int64_t kSmallBytes = 4096;  // of a whole tensor

ActivationFormat format_of(SavedCodec codec) {
  if (codec == SavedCodec::Raw) return ActivationFormat::Raw;
  if (codec == SavedCodec::Host) return ActivationFormat::Offloaded;
  return is_lossy(codec) ? ActivationFormat::Compressed : ActivationFormat::Lossless;
}

}  // namespace

bool can_compress(const SavedStatistics& tensor, std::int64_t samples) {
  const bool floating = tensor.type == ElementType::F32 || tensor.type == ElementType::F16 ||
                        tensor.type == ElementType::BF16;
  return floating && keeps_values(tensor.kind) && tensor.raw_bytes(samples) >= kSmallBytes;
}

SavedCodec group_codec_of(const SavedStatistics& tensor, std::int64_t samples) {
  constexpr std::int64_t most_positions =
      15;  // from 4 x 4 on, a transform quantizes channels separately
  constexpr std::int64_t fewest_elements = 32;
  const std::int64_t levels = tensor.levels(samples);
  if (tensor.kind != SavedClass::NormInput || levels == 0 ||
      tensor.elements(samples) < fewest_elements * levels)
    return SavedCodec::Groups;
  if (tensor.by_rows) return SavedCodec::LevelledRows;
  return tensor.sizes[2] * tensor.sizes[3] <= most_positions ? SavedCodec::Levelled
                                                             : SavedCodec::Groups;
}

SavedPlan lossless_plan(const SavedStatistics& tensor) {
  if (tensor.kind == SavedClass::Sizes) return {.codec = SavedCodec::Shape};
  if (tensor.kind == SavedClass::Sign) return {.codec = SavedCodec::Mask};
  // Not every pooling exposes its windows.
  const bool has_windows = tensor.window_taps >= 1 && tensor.window_taps <= 256;
  if (tensor.kind == SavedClass::Window && has_windows) return {.codec = SavedCodec::Window};
  return {};
}

std::vector<SavedPlan> lossless_plans(std::span<const SavedStatistics> tensors) {
  std::vector<SavedPlan> plans;
  for (const SavedStatistics& tensor : tensors) plans.push_back(lossless_plan(tensor));
  return plans;
}

std::vector<SavedPlan> offload_plans(std::span<const SavedStatistics> tensors, double share) {
  std::vector<SavedPlan> plans = lossless_plans(tensors);
  std::vector<std::size_t> large;
  std::int64_t bytes = 0, moved = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (plans[i].codec != SavedCodec::Raw || tensors[i].kind == SavedClass::Constant) continue;
    large.push_back(i);
    bytes += tensors[i].raw_bytes(1);
  }
  for (const std::size_t i : large) {
    if (share < 1 && static_cast<double>(moved) >= share * static_cast<double>(bytes)) break;
    plans[i].codec = SavedCodec::Host;
    moved += tensors[i].raw_bytes(1);
  }
  return plans;
}

std::vector<SavedPlan> uniform_plans(std::span<const SavedStatistics> tensors,
                                     const SavedPlan& plan, std::int64_t samples) {
  std::vector<SavedPlan> plans;
  for (const SavedStatistics& tensor : tensors)
    plans.push_back(can_compress(tensor, samples) ? plan : lossless_plan(tensor));
  return plans;
}

bool is_lossy(SavedCodec codec) {
  return codec != SavedCodec::Raw && codec != SavedCodec::Shape && codec != SavedCodec::Mask &&
         codec != SavedCodec::Window && codec != SavedCodec::Host;
}

int least_bits(SavedClass kind, const CodecOptions& options) {
  if (kind == SavedClass::Nonlinear) return options.nonlinear_bits;
  if (kind == SavedClass::Attention) return options.attention_bits;
  return 1;
}

double usual_sensitivity(SavedClass kind) { return kind == SavedClass::NormInput ? 0.2 : 1.0; }

double sensitivity_of(const SavedStatistics& tensor) {
  return tensor.sensitivity > 0 ? tensor.sensitivity : usual_sensitivity(tensor.kind);
}

double mean_bits(const SavedStatistics& tensor, const SavedPlan& plan) {
  switch (plan.codec) {
    case SavedCodec::Raw:
    case SavedCodec::Host:
      return 32;
    case SavedCodec::Groups:
    case SavedCodec::Levelled:
    case SavedCodec::LevelledRows:
      return plan.eighths / 8.0;
    case SavedCodec::NonZeros:
      return std::min(8.0, plan.eighths / 8.0 / std::max(tensor.nonzero_share, 1.0 / 64));
    case SavedCodec::Frequency:
      return static_cast<double>(asked_bits(plan)) / coefficients_of(plan.block);
    case SavedCodec::Registered:
      return registered_codec(plan.registered).bits();
    case SavedCodec::Shape:
    case SavedCodec::Mask:
    case SavedCodec::Window:
    case SavedCodec::Derived:
      return 0;
  }
  return 0;
}

void put_saved_plans(StepPlan& step, const SavedCensus& census,
                     const std::vector<SavedStatistics>& tensors,
                     const std::vector<SavedPlan>& plans) {
  step.saved = plans_by_entry(census, tensors, plans);
  for (LayerPlan& layer : step.layers) layer.saved = ActivationFormat::Raw;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].layer < 0) continue;
    LayerPlan& layer = step.layers.at(static_cast<std::size_t>(tensors[i].layer));
    layer.saved = std::max(layer.saved, format_of(plans[i].codec));
  }
}

std::vector<bool> derivable_tensors(std::span<const SavedStatistics> tensors, std::int64_t samples,
                                    const CodecOptions& options) {
  std::vector<bool> derivable(tensors.size(), false);
  for (std::size_t i = 0; options.derive && i < tensors.size(); ++i) {
    const SavedStatistics& tensor = tensors[i];
    // Forward saves a source before the tensors computed from it, so there are no cycles.
    if (tensor.derivation == Derivation::None || tensor.source < 0 ||
        tensor.source >= static_cast<std::int64_t>(i))
      continue;
    const SavedStatistics& source = tensors[static_cast<std::size_t>(tensor.source)];
    derivable[i] = can_compress(tensor, samples) && lossless_plan(source).codec == SavedCodec::Raw;
  }
  return derivable;
}

bool source_suffices(Derivation derivation, double source_bits, double source_error,
                     const CodecOptions& options, double slack) {
  switch (derivation) {
    case Derivation::None:
      return false;
    case Derivation::Affine:
      return true;
    case Derivation::Rectified:
      return source_bits >= options.derived_bits * (1 - slack);
    case Derivation::Smooth:
      return source_error * (1 - slack) < options.derived_error;
  }
  return false;
}

}  // namespace triaccel
