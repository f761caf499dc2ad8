#include "triaccel/policies/memory/held_bytes.h"

#include "triaccel/base/error.h"
#include "triaccel/core/codec_registry.h"
#include "triaccel/core/saved_bytes.h"
#include "triaccel/policies/compression/band_table.h"

namespace triaccel {

HeldBytes::HeldBytes(const SavedStatistics& tensor, std::int64_t samples)
    : kind_(tensor.kind),
      sizes_(tensor.sizes_for(samples)),
      elements_(tensor.elements(samples)),
      levels_(tensor.levels(samples)),
      raw_bytes_(tensor.raw_bytes(samples)),
      window_taps_(tensor.window_taps),
      mask_bytes_(tensor.mask_elsewhere ? 0 : mask_bytes(elements_)),
      mask_too_(tensor.mask_too),
      derived_by_mask_(tensor.derivation == Derivation::Rectified) {
  const std::vector<BlockMap> maps = block_maps(sizes_);
  has_maps_ = !maps.empty() && elements_ > 0;
  for (std::size_t t = 1; t < kTransformBlocks.size(); ++t)
    for (const BlockMap& map : maps) {
      const int block = kTransformBlocks[t];
      const FrequencyLayout layout = frequency_layout(map, block, {8});
      frequency_[t].headers += layout.header_bytes();
      frequency_[t].per_bit += (layout.bytes() - layout.header_bytes()) / 8;
    }
}

std::int64_t HeldBytes::under(const SavedPlan& plan) const {
  if (kind_ == SavedClass::Constant) return 0;
  const std::int64_t mask = mask_too_ ? mask_bytes_ : 0;
  switch (plan.codec) {
    case SavedCodec::Raw:
      return raw_bytes_;
    case SavedCodec::Shape:
      return 0;
    case SavedCodec::Mask:
      return mask_bytes_;
    case SavedCodec::Window:
      return window_bytes(elements_, window_taps_);
    case SavedCodec::Groups:
      return mask + group_bytes(elements_, plan.eighths);
    case SavedCodec::Levelled:
    case SavedCodec::LevelledRows:
      require(levels_ > 0, "held_bytes", "a tensor of ", sizes_.size(),
              " dimensions has no channels or rows for the levelled codec");
      return mask + levelled_bytes(elements_, levels_, plan.eighths);
    case SavedCodec::NonZeros:
      return mask_bytes_ + nonzero_bytes(elements_, plan.eighths);
    case SavedCodec::Frequency:
      require(has_maps_, "held_bytes", "a tensor of ", sizes_.size(),
              " dimensions has no maps for the frequency codec");
      return mask + frequency_[transform_index(plan.block)].headers +
             frequency_[transform_index(plan.block)].per_bit * stored_bits(plan);
    case SavedCodec::Derived:
      return derived_by_mask_ ? mask_bytes_ : mask;
    case SavedCodec::Registered:
      return mask + registered_codec(plan.registered).bytes(sizes_);
    case SavedCodec::Host:
      return raw_bytes_ < kLeastHostBytes ? raw_bytes_ : mask;
  }
  return 0;
}

std::int64_t held_bytes(std::span<const SavedStatistics> tensors, std::span<const SavedPlan> plans,
                        std::int64_t samples) {
  require(tensors.size() == plans.size(), "held_bytes", "there are ", tensors.size(),
          " tensors and ", plans.size(), " plans");
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    sum += HeldBytes(tensors[i], samples).under(plans[i]);
  return sum;
}

std::int64_t fp32_bytes(std::span<const SavedStatistics> tensors, std::int64_t samples) {
  std::int64_t sum = 0;
  for (const SavedStatistics& tensor : tensors)
    if (tensor.kind != SavedClass::Constant) sum += tensor.fp32_bytes(samples);
  return sum;
}

}  // namespace triaccel
