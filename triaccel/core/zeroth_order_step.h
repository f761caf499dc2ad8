#pragma once

#include <cstdint>
#include <vector>

namespace triaccel {

/// All that a zeroth-order step did to its weights, given the seed: with these and the first
/// weights a run can be redone.
struct ZerothOrderStep {
  std::int64_t step = 0;              // steps done before it
  double learning_rate = 0;           // of the zeroth-order layers
  std::vector<float> gradients = {};  // projected on each direction; 0: the step was skipped
  bool operator==(const ZerothOrderStep&) const = default;
};

}  // namespace triaccel
