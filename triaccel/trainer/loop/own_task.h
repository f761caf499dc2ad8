#pragma once

#include <memory>

#include "triaccel/data/dataset.h"
#include "triaccel/data/tensor_data.h"
#include "triaccel/step/step_batch.h"

namespace triaccel {

/// A user's own data, loss and metric.
struct OwnTask {
  std::shared_ptr<Dataset> train = {};
  std::shared_ptr<Dataset> test = {};
  LossFunction loss = {};      // empty: cross-entropy over the last dimension of the outputs
  MetricFunction metric = {};  // empty: share of right classes, 0 under a loss of one's own
};

}  // namespace triaccel
