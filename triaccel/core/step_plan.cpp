#include "triaccel/core/step_plan.h"

#include <bit>

namespace triaccel {
namespace {

/// Folds one value into a hash by the finaliser of SplitMix64, which spreads every bit.
std::uint64_t fold(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t z = hash + 0x9E3779B97F4A7C15u + value;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

std::uint64_t shape_hash(const StepPlan& plan) {
  std::uint64_t hash = fold(0, static_cast<std::uint64_t>(plan.batch_size));
  hash = fold(hash, static_cast<std::uint64_t>(plan.micro_batch_size));
  hash = fold(hash, plan.layers.size());
  for (const LayerPlan& layer : plan.layers) {
    hash = fold(hash, static_cast<std::uint64_t>(layer.compute));
    hash = fold(hash, static_cast<std::uint64_t>(layer.saved));
    hash = fold(hash, static_cast<std::uint64_t>(layer.gradient));
  }
  return hash;
}

std::uint64_t plan_hash(const StepPlan& plan) {
  std::uint64_t hash = shape_hash(plan);
  // -0 and +0 compare equal, so they must hash equal: adding +0 makes both +0.
  const auto fold_scale = [&](float scale) {
    hash = fold(hash, std::bit_cast<std::uint32_t>(scale + 0.0f));
  };
  fold_scale(plan.learning_rate_scale);
  for (const LayerPlan& layer : plan.layers) fold_scale(layer.learning_rate_scale);
  return hash;
}

}  // namespace triaccel
