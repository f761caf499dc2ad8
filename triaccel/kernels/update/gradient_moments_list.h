#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel::kernels {

/// Elements that one CUDA block measures: enough that its sum and its ticket cost little compared
/// with them, and few enough that 10 M elements are a single wave of blocks on a large GPU.
inline constexpr std::int64_t kMomentsSegment = 4 * kChunk;

constexpr std::int64_t segments_of(std::int64_t count) { return divide_up(count, kMomentsSegment); }

/// Everything a block reads about its tensor, side by side: each line of the constant cache that it
/// touches is waited for.
struct MomentsTensor {
  const void* gradient;
  std::int64_t count;
  std::int32_t layer;
  std::int32_t layer_begin;  // of the segments of its layer in this list
  std::int32_t layer_end;
  FloatType type;
};
static_assert(sizeof(MomentsTensor) == 32);

/// Tensors as one kernel argument, all of a layer side by side: so are their segments.
struct MomentsList {
  static constexpr int kCapacity = 107;
  static constexpr int kMarks = 64;
  MomentsTensor tensors[kCapacity];
  std::int32_t first_segment[kCapacity + 1];  // prefix sum of segments
  std::uint8_t mark[kMarks];  // the tensor of segment k << mark_shift: where to search from
  std::int32_t mark_shift;
};
static_assert(sizeof(MomentsList) <= 4000,
              "kernel arguments end at 4 KB; the rest is the operation's");

/// One segment: elements [begin, begin + count) of tensor `index` of a list.
struct MomentsSegment {
  int index;
  std::int64_t begin;
  std::int32_t count;
};

TRIACCEL_HOST_DEVICE inline MomentsSegment locate_segment(const MomentsList& list,
                                                          std::int32_t segment) {
  int index = list.mark[segment >> list.mark_shift];
  while (list.first_segment[index + 1] <= segment) ++index;
  const std::int64_t begin = std::int64_t{segment - list.first_segment[index]} * kMomentsSegment;
  const std::int64_t left = list.tensors[index].count - begin;
  return {index, begin, static_cast<std::int32_t>(left < kMomentsSegment ? left : kMomentsSegment)};
}

/// Of at most kCapacity tensors that are not empty, in the order of their layers.
inline MomentsList moments_list(std::span<const TensorEntry* const> tensors) {
  MomentsList list = {};
  std::size_t layer_begin = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorEntry& tensor = *tensors[i];
    if (tensor.layer != tensors[layer_begin]->layer) layer_begin = i;
    list.first_segment[i + 1] =
        list.first_segment[i] + static_cast<std::int32_t>(segments_of(tensor.count));
    list.tensors[i] = {.gradient = tensor.gradient,
                       .count = tensor.count,
                       .layer = tensor.layer,
                       .layer_begin = list.first_segment[layer_begin],
                       .layer_end = 0,
                       .type = tensor.gradient_type};
    for (std::size_t k = layer_begin; k <= i; ++k)
      list.tensors[k].layer_end = list.first_segment[i + 1];
  }
  const std::int32_t segments = list.first_segment[tensors.size()];
  while ((segments - 1) >> list.mark_shift >= MomentsList::kMarks) ++list.mark_shift;
  int index = 0;
  for (std::int32_t segment = 0; segment < segments; ++segment) {
    while (list.first_segment[index + 1] <= segment) ++index;
    if (segment % (1 << list.mark_shift) == 0)
      list.mark[segment >> list.mark_shift] = static_cast<std::uint8_t>(index);
  }
  return list;
}

/// Calls body(list, segments) for every kCapacity tensors, in the order of their layers. Empty
/// tensors are skipped.
template <typename Body>
void for_each_moments_list(std::span<const TensorEntry> tensors, Body body) {
  std::vector<const TensorEntry*> sorted;
  for (const TensorEntry& tensor : tensors)
    if (tensor.count > 0) sorted.push_back(&tensor);
  std::ranges::stable_sort(sorted, {}, &TensorEntry::layer);
  for (std::span<const TensorEntry* const> rest = sorted; !rest.empty();) {
    const auto some = rest.first(std::min<std::size_t>(rest.size(), MomentsList::kCapacity));
    const MomentsList list = moments_list(some);
    body(list, list.first_segment[some.size()]);
    rest = rest.subspan(some.size());
  }
}

}  // namespace triaccel::kernels
