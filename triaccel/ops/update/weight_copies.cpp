#include "triaccel/ops/update/weight_copies.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string_view>

#include "triaccel/base/error.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

using Two = std::array<std::int64_t, 2>;
using Four = std::array<std::int64_t, 4>;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 30;  // of an entry: 32-bit indices

/// A weight as [out, in, kh, kw]; a matrix has one tap.
struct WeightShape {
  Four sizes = {1, 1, 1, 1};
  Four strides = {};
};

WeightShape weight_shape(std::string_view who, std::string_view name, const at::Tensor& tensor) {
  require(tensor.dim() == 2 || tensor.dim() == 4, who, name,
          " must be [out, in] or [out, in, kh, kw], got ", tensor.sizes());
  WeightShape shape;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    shape.sizes[i] = tensor.size(d);
    shape.strides[i] = tensor.size(d) == 1 ? 0 : tensor.stride(d);
  }
  return shape;
}

/// The taps [first, last) of both dimensions, `last` 0 read as all.
Two checked_last(std::string_view who, const at::Tensor& weight, Two first, Two last) {
  for (const std::size_t d : {0u, 1u}) {
    const std::int64_t taps = weight.size(static_cast<std::int64_t>(d) + 2);
    if (last[d] == 0) last[d] = taps;
    require(first[d] >= 0 && first[d] < last[d] && last[d] <= taps, who, "taps [", first[d], ", ",
            last[d], ") do not lie in a weight of shape ", weight.sizes());
  }
  return last;
}

/// Joins neighbouring dimensions that `from` steps through as one: longer rows for the kernels.
void join_dimensions(Four& extents, Four& strides) {
  Four joined_extents = {1, 1, 1, 1}, joined_strides = {};
  std::size_t at = 4;
  for (std::size_t d = 4; d-- > 0;) {
    if (extents[d] == 1) continue;
    const bool continues = at < 4 && strides[d] == joined_extents[at] * joined_strides[at] &&
                           extents[d] * joined_extents[at] <= kMaxElements;
    if (continues) {
      joined_extents[at] *= extents[d];
    } else {
      --at;
      joined_extents[at] = extents[d];
      joined_strides[at] = strides[d];
    }
  }
  extents = joined_extents;
  strides = joined_strides;
}

std::int32_t narrow(std::string_view who, std::int64_t value) {
  require(value <= std::numeric_limits<std::int32_t>::max(), who,
          "a weight of this shape is too large: it steps over ", value, " elements");
  return static_cast<std::int32_t>(value);
}

/// The entries of one copy of the taps from `first_tap` on: one, unless it has more elements than a
/// kernel counts.
void append_entries(std::vector<kernels::WeightCopyEntry>& entries, const WeightCopySpec& spec,
                    Two first_tap, const at::Tensor& copy, const WeightShape& weight) {
  constexpr std::string_view who = "WeightCopies";
  const bool channels_last =
      copy.dim() == 4 && copy.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
  const std::array<std::size_t, 4> order = channels_last ? std::array<std::size_t, 4>{0, 2, 3, 1}
                                                         : std::array<std::size_t, 4>{0, 1, 2, 3};
  const WeightShape target = weight_shape(who, "the copy", copy);
  const float* first = spec.weight.const_data_ptr<float>();
  if (copy.dim() == 4)
    first += first_tap[0] * spec.weight.stride(2) + first_tap[1] * spec.weight.stride(3);
  const std::int64_t row = copy.numel() / std::max<std::int64_t>(1, copy.size(0));
  require(row <= kMaxElements, who, "a row of ", row, " elements is too long");
  const std::int64_t rows_an_entry = kMaxElements / std::max<std::int64_t>(1, row);
  for (std::int64_t done = 0; done < copy.size(0); done += rows_an_entry) {
    Four extents, strides;
    for (std::size_t d = 0; d < 4; ++d) {
      extents[d] = target.sizes[order[d]];
      strides[d] = weight.strides[order[d]];
    }
    extents[0] = std::min(rows_an_entry, copy.size(0) - done);
    join_dimensions(extents, strides);
    kernels::WeightCopyEntry entry = {
        .from = first + done * weight.strides[0],
        .to = static_cast<std::uint16_t*>(copy.mutable_data_ptr()) + done * row,
        .type = float_type_of(who, "the copy", spec.type)};
    for (std::size_t d = 0; d < 4; ++d) {
      entry.extent[d] = narrow(who, extents[d]);
      entry.stride[d] = narrow(who, strides[d]);
    }
    entries.push_back(entry);
  }
}

at::Tensor allocate_copy(const WeightCopySpec& spec) {
  constexpr std::string_view who = "WeightCopies";
  const at::Tensor& weight = spec.weight;
  std::vector<std::int64_t> sizes = weight.sizes().vec();
  auto format = at::MemoryFormat::Contiguous;
  if (weight.dim() == 4) {
    const WeightPart& part = spec.part;
    const Two last = checked_last(who, weight, part.first_tap, part.last_tap);
    for (const std::size_t d : {0u, 1u}) {
      require(part.boxes[d] > 0 && part.step[d] >= 0 &&
                  part.first_tap[d] >= (part.boxes[d] - 1) * part.step[d],
              who, part.boxes[d], " boxes of taps, each ", part.step[d], " before the last from ",
              part.first_tap[d], " on, do not lie in a weight of shape ", weight.sizes());
      sizes[0] *= part.boxes[d];
      sizes[d + 2] = last[d] - part.first_tap[d];
    }
    format = weight.suggest_memory_format();
  }
  return at::empty(sizes, weight.options().dtype(spec.type).requires_grad(false), format);
}

/// The entries of all boxes of taps.
void append_boxes(std::vector<kernels::WeightCopyEntry>& entries, const WeightCopySpec& spec,
                  const at::Tensor& copy, const WeightShape& weight) {
  if (copy.dim() != 4) return append_entries(entries, spec, {}, copy, weight);
  const WeightPart& part = spec.part;
  const std::int64_t rows = spec.weight.size(0);
  for (std::int64_t box = 0; box < part.boxes[0] * part.boxes[1]; ++box) {
    const Two place = {box / part.boxes[1], box % part.boxes[1]};
    append_entries(
        entries, spec,
        {part.first_tap[0] - place[0] * part.step[0], part.first_tap[1] - place[1] * part.step[1]},
        copy.narrow(0, box * rows, rows), weight);
  }
}

}  // namespace

WeightCopies::WeightCopies(std::vector<WeightCopySpec> specs) {
  constexpr std::string_view who = "WeightCopies";
  for (const WeightCopySpec& spec : specs) {
    require(spec.weight.defined(), who, "a weight is an undefined tensor");
    require(spec.type == at::kBFloat16 || spec.type == at::kHalf, who,
            "a copy must be bfloat16 or float16, got ", c10::toString(spec.type));
    check_tensor(who, "every weight", spec.weight, specs.front().weight.device(), at::kFloat);
    const WeightShape shape = weight_shape(who, "a weight", spec.weight);
    copies_.push_back(allocate_copy(spec));
    append_boxes(entries_, spec, copies_.back(), shape);
    weights_.push_back(spec.weight.detach());
  }
}

void WeightCopies::refresh() {
  if (entries_.empty()) return;
  dispatch<kernels::cpu::copy_weights, kernels::cuda::copy_weights>(
      "WeightCopies::refresh", weights_.front().device(), entries_);
}

at::Tensor whole_gradient(const at::Tensor& part, const at::Tensor& weight, Two first_tap,
                          Two last_tap) {
  constexpr std::string_view who = "whole_gradient";
  require(part.defined() && weight.defined(), who, "part or weight is an undefined tensor");
  check_tensor(who, "part", part, weight.device(), part.scalar_type());
  const kernels::FloatType type = float_type_of(who, "part", part.scalar_type());
  require(weight.is_non_overlapping_and_dense(), who, "weight must own dense memory; clone() it");
  const WeightShape from = weight_shape(who, "part", part),
                    to = weight_shape(who, "weight", weight);
  Four first = {}, last = to.sizes;
  if (weight.dim() == 4) {
    const auto last_taps = checked_last(who, weight, first_tap, last_tap);
    std::ranges::copy(first_tap, first.begin() + 2);
    std::ranges::copy(last_taps, last.begin() + 2);
  }
  const bool fits = part.dim() == weight.dim() && from.sizes[0] == to.sizes[0] &&
                    from.sizes[1] == to.sizes[1] && from.sizes[2] == last[2] - first[2] &&
                    from.sizes[3] == last[3] - first[3];
  require(fits, who, "part has shape ", part.sizes(), ", which is no part of ", weight.sizes(),
          " with these taps");
  require(weight.numel() < 2 * kMaxElements, who, "weight has ", weight.numel(),
          " elements; 2^31 or more are too many");

  const at::NoGradGuard no_gradient;
  at::Tensor whole = at::empty_like(weight, weight.options().dtype(part.scalar_type()),
                                    at::MemoryFormat::Preserve);
  std::array<std::size_t, 4> order = {0, 1, 2, 3};  // as `whole` lies in memory, outermost first
  std::ranges::stable_sort(order, std::greater<>{}, [&](std::size_t d) {
    return to.sizes[d] == 1 ? std::numeric_limits<std::int64_t>::max() : to.strides[d];
  });
  kernels::WholeGradient gradient = {.part = part.const_data_ptr(),
                                     .whole = whole.mutable_data_ptr(),
                                     .word_bytes = type == kernels::FloatType::F32 ? 4 : 2};
  for (std::size_t d = 0; d < 4; ++d) {
    gradient.extent[d] = static_cast<std::int32_t>(to.sizes[order[d]]);
    gradient.first[d] = static_cast<std::int32_t>(first[order[d]]);
    gradient.last[d] = static_cast<std::int32_t>(last[order[d]]);
    gradient.stride[d] = from.strides[order[d]];
  }
  dispatch<kernels::cpu::write_whole_gradient, kernels::cuda::write_whole_gradient>(
      who, weight.device(), gradient);
  return whole;
}

}  // namespace triaccel
