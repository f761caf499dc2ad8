#include "triaccel/core/saved_statistics.h"

#include <algorithm>
#include <array>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

/// How much of a tensor a reader needs: the class with the higher place decides.
std::ptrdiff_t place_of(SavedClass kind) {
  using enum SavedClass;
  constexpr std::array kPlaces = {Sizes,    Sign,      Window,    NormInput, Factor,
                                  Positive, Nonlinear, Attention, Vector,    Statistics,
                                  ReluMask, Other,     Constant};
  return std::ranges::find(kPlaces, kind) - kPlaces.begin();
}

bool is_floating(ElementType type) {
  return type == ElementType::F32 || type == ElementType::F16 || type == ElementType::BF16;
}

std::int64_t index_of(const std::vector<std::size_t>& tensor_of, std::int64_t entry) {
  return static_cast<std::int64_t>(tensor_of.at(static_cast<std::size_t>(entry)));
}

}  // namespace

std::int64_t SavedStatistics::elements(std::int64_t samples) const {
  std::int64_t count = per_sample ? samples : 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

std::int64_t SavedStatistics::levels(std::int64_t samples) const {
  if (by_rows) return elements(samples) / std::max<std::int64_t>(1, sizes.back());
  return sizes.size() == 4 ? sizes[1] : 0;
}

std::int64_t SavedStatistics::fp32_bytes(std::int64_t samples) const {
  if (kind == SavedClass::ReluMask) return 0;
  const std::int64_t tensors = replaces_activation_input ? 2 : 1;
  return tensors * elements(samples) * (is_floating(type) ? 4 : size_of(type));
}

std::vector<std::int64_t> SavedStatistics::sizes_for(std::int64_t samples) const {
  std::vector<std::int64_t> whole = sizes;
  if (per_sample && !whole.empty()) whole[0] *= samples;
  return whole;
}

std::vector<SavedStatistics> tensors_of(const SavedCensus& census) {
  std::vector<SavedStatistics> tensors;
  std::vector<std::size_t> tensor_of(census.entries.size());
  for (std::size_t i = 0; i < census.entries.size(); ++i) {
    const SavedEntry& entry = census.entries[i];
    const auto first = static_cast<std::size_t>(entry.same_as);
    require(first <= i, "tensors_of", "entry ", i, " of the census is the same as ", first,
            ", which comes later");
    if (first == i) {
      tensor_of[i] = tensors.size();
      tensors.push_back({.entry = entry.same_as,
                         .layer = entry.layer,
                         .kind = entry.kind,
                         .mask_elsewhere = entry.mask >= 0,
                         .type = entry.type,
                         .sizes = entry.sizes,
                         .per_sample = entry.per_sample,
                         .window_taps = entry.windows.taps(),
                         .by_rows = entry.by_rows,
                         .replaces_activation_input = entry.replaces_activation_input,
                         .derivation = entry.derivation,
                         .source = entry.source < 0 ? -1 : index_of(tensor_of, entry.source)});
      continue;
    }
    SavedStatistics& tensor = tensors[tensor_of[i] = tensor_of[first]];
    tensor.mask_too =
        tensor.mask_too || entry.kind == SavedClass::Sign || tensor.kind == SavedClass::Sign;
    if (place_of(entry.kind) <= place_of(tensor.kind)) continue;
    tensor.kind = entry.kind;
    tensor.layer = entry.layer;
    tensor.by_rows = entry.by_rows;
  }
  // A mask, or the whole tensor, tells the zeros anyway.
  for (SavedStatistics& tensor : tensors)
    tensor.mask_too = tensor.mask_too && tensor.kind != SavedClass::Sign;
  return tensors;
}

std::vector<SavedPlan> plans_by_entry(const SavedCensus& census,
                                      const std::vector<SavedStatistics>& tensors,
                                      const std::vector<SavedPlan>& plans) {
  require(tensors.size() == plans.size(), "plans_by_entry", "there are ", tensors.size(),
          " tensors and ", plans.size(), " plans");
  std::vector<SavedPlan> by_entry(census.entries.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    by_entry.at(static_cast<std::size_t>(tensors[i].entry)) = plans[i];
  for (std::size_t i = 0; i < by_entry.size(); ++i)
    by_entry[i] = by_entry[static_cast<std::size_t>(census.entries[i].same_as)];
  return by_entry;
}

}  // namespace triaccel
