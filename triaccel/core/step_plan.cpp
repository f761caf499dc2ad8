#include "triaccel/core/step_plan.h"

#include <bit>

#include "triaccel/base/mixed_hash.h"

namespace triaccel {
namespace {

/// All fields but `predicted` and `registered` in one number, whatever the machine's order of
/// bytes.
std::uint64_t packed(const SavedPlan& saved) {
  std::uint64_t bits = static_cast<std::uint64_t>(saved.codec);
  bits = bits << 8 | saved.block;
  bits = bits << 8 | saved.eighths;
  for (const std::uint8_t eighths : saved.band_eighths) bits = bits << 8 | eighths;
  return bits;
}

}  // namespace

std::uint64_t shape_hash(const StepPlan& plan) {
  std::uint64_t hash = mixed_hash(0, static_cast<std::uint64_t>(plan.batch_size));
  hash = mixed_hash(hash, static_cast<std::uint64_t>(plan.micro_batch_size));
  hash = mixed_hash(hash, plan.layers.size());
  for (const LayerPlan& layer : plan.layers) {
    hash = mixed_hash(hash, static_cast<std::uint64_t>(layer.compute));
    hash = mixed_hash(hash, static_cast<std::uint64_t>(layer.saved));
    hash = mixed_hash(hash, static_cast<std::uint64_t>(layer.gradient));
  }
  for (const SavedPlan& saved : plan.saved) {
    hash = mixed_hash(hash, packed(saved));
    if (saved.predicted > 0) hash = mixed_hash(hash, saved.predicted);
    if (saved.registered > 0) hash = mixed_hash(hash, saved.registered);
  }
  return hash;
}

std::uint64_t plan_hash(const StepPlan& plan) {
  std::uint64_t hash = shape_hash(plan);
  // -0 and +0 compare equal, so they must hash equal: adding +0 makes both +0.
  const auto fold_scale = [&](float scale) {
    hash = mixed_hash(hash, std::bit_cast<std::uint32_t>(scale + 0.0f));
  };
  fold_scale(plan.learning_rate_scale);
  for (const LayerPlan& layer : plan.layers) fold_scale(layer.learning_rate_scale);
  return hash;
}

}  // namespace triaccel
