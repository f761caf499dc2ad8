#include "triaccel/step/zeroth_order_losses.h"

#include <ATen/ATen.h>

namespace triaccel {

void gather_losses(ZerothOrder& zeroth, StepSnapshot& snapshot, bool captured, bool backprop,
                   const std::function<void(const PassRules&)>& run_passes) {
  const bool clean_pass = backprop && zeroth.wants_clean_pass();
  const FrozenWeights frozen(zeroth.weights());
  const auto as_before = [&] {
    snapshot.put_back_buffers();
    if (!captured) snapshot.put_back_generators();
  };
  const std::int64_t evaluations = zeroth.evaluations();
  for (std::int64_t evaluation = 0; evaluation < evaluations; ++evaluation) {
    if (evaluation > 0) as_before();
    zeroth.go_to(evaluation);
    const bool last = evaluation + 1 == evaluations && !clean_pass;
    run_passes({.scored = last,
                .backward = last && backprop,
                .losses = [&](std::int64_t pass, std::int64_t rows, std::int64_t classes) {
                  return zeroth.losses(evaluation, pass, rows, classes);
                }});
  }
  if (!clean_pass) return;
  as_before();
  zeroth.go_back();
  run_passes({});
}

FrozenWeights::FrozenWeights(const std::vector<at::Tensor>& weights) {
  for (const at::Tensor& weight : weights)
    if (weight.requires_grad()) frozen_.push_back(weight);
  for (const at::Tensor& weight : frozen_) weight.set_requires_grad(false);
}

FrozenWeights::~FrozenWeights() {
  for (const at::Tensor& weight : frozen_) weight.set_requires_grad(true);
}

}  // namespace triaccel
