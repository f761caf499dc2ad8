#include "triaccel/data/point_data.h"

#include <ATen/ATen.h>

#include "triaccel/core/memory_report.h"
#include "triaccel/device/cpu_memory.h"

namespace triaccel {

PointData::PointData(const PointSet& set, c10::Device device) {
  MemoryPurposeScope purpose(MemoryPurpose::Data);
  // Ten bits fit int16, which libtorch supports everywhere, unlike uint16.
  auto* const coordinates = const_cast<std::uint16_t*>(set.coordinates.data());
  auto* const labels = const_cast<std::uint8_t*>(set.labels.data());
  coordinates_ = at::from_blob(coordinates, {set.count, 3, set.points}, at::kShort)
                     .to(device, at::kShort, false, /*copy=*/true);
  labels_ = at::from_blob(labels, {set.count}, at::kByte).to(device, at::kByte, false, true);
}

std::int64_t PointData::bytes() const {
  return static_cast<std::int64_t>(coordinates_.nbytes() + labels_.nbytes());
}

Batch PointData::gather(const at::Tensor& ids, const GatherOptions&) const {
  constexpr double scale = 2.0 / kLargestCoordinate;
  return {coordinates_.index_select(0, ids).to(at::kFloat).mul_(scale).sub_(1),
          labels_.index_select(0, ids).to(at::kLong)};
}

}  // namespace triaccel
