#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "triaccel/optim/zeroth_order.h"
#include "triaccel/step/step_snapshot.h"

namespace triaccel {

/// How the passes over a batch are run once.
struct PassRules {
  bool scored = true;    // they count in the reported loss and accuracy
  bool backward = true;  // and leave gradients
  // Where pass number `pass` leaves its losses; empty: nowhere.
  std::function<at::Tensor(std::int64_t pass, std::int64_t rows, std::int64_t classes)> losses = {};
};

/// Runs the passes of a step over and over, each time with the weights where ZerothOrder wants
/// them, with the same batch, the same random numbers and the same running statistics; the last
/// run is the one that is scored, that updates the running statistics and, with `backprop`, that
/// layers trained by backpropagation learn from. Leaves the weights where the last run saw them.
void gather_losses(ZerothOrder& zeroth, StepSnapshot& snapshot, bool captured, bool backprop,
                   const std::function<void(const PassRules&)>& run_passes);

/// Autograd keeps nothing for these weights until the scope ends.
class [[nodiscard]] FrozenWeights {
 public:
  explicit FrozenWeights(const std::vector<at::Tensor>& weights);
  ~FrozenWeights();
  FrozenWeights(const FrozenWeights&) = delete;
  FrozenWeights& operator=(const FrozenWeights&) = delete;

 private:
  std::vector<at::Tensor> frozen_;
};

}  // namespace triaccel
