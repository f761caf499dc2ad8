#pragma once

#include "triaccel/data/dataset.h"
#include "triaccel/formats/point_cloud.h"

namespace triaccel {

/// Point clouds stored as 16-bit coordinates; a batch is float [B, 3, points] in [-1, 1].
class PointData final : public Dataset {
 public:
  PointData(const PointSet& set, c10::Device device);

  std::int64_t size() const override { return labels_.numel(); }
  std::int64_t bytes() const override;
  Batch gather(const at::Tensor& ids, const GatherOptions& options) const override;

 private:
  at::Tensor coordinates_;  // int16 [count, 3, points]: 0 to 1023
  at::Tensor labels_;       // uint8 [count]
};

}  // namespace triaccel
