#pragma once

#include <cstdint>

#include "triaccel/int8/training/train_step.h"

namespace triaccel::int8 {

/// Integer schedule from `first` to `last`, each for an equal part of a run.
struct StepSchedule {
  std::int32_t first = 0;
  std::int32_t last = 0;

  std::int32_t at(std::int64_t done_steps, std::int64_t total_steps) const {
    const std::int64_t schedule = first < last ? last - first + 1 : first - last + 1;
    std::int64_t level = total_steps > 0 ? done_steps * schedule / total_steps : 0;
    if (level > schedule - 1) level = schedule - 1;
    return static_cast<std::int32_t>(first < last ? first + level : first - level);
  }
};

inline constexpr std::int32_t kMostLogitGain = 12;

/// Default hyperparameters for small networks.
struct Recipe {
  NoiseShape noise = {};
  std::int32_t slope_exponent = kSignOnly;
  StepSchedule rate_exponent = {};
  std::int64_t tuned_steps = 0;  // length of the runs that rate_exponent suits; 0: of any
  StepSchedule gradient_bits = {3, 3};
  std::uint32_t saturated_share = 65536;
  std::int32_t logit_gain = 0;  // log2 of the factor on the logits of initial weights
  // Of all steps, for StepOptions:
  std::int32_t zo_layers = kMostLayers;
  bool clean_pass = false;
};

/// Tuned for LeNet-5 on MNIST at batch 32, on held-out samples; point clouds start from larger
/// logits and, with a boundary, perturb only the narrow layers. `sign_only`: steps use only the
/// sign of the slope.
Recipe recipe_for(const Network& network, std::int32_t bp_layers, bool sign_only = false);

/// The recipe with another factor on initial logits, at most 2^kMostLogitGain. Losses grow with the
/// logits, and the unit of the slope with them: otherwise most slopes would be the largest one.
Recipe with_logit_gain(Recipe recipe, std::int32_t gain);

/// The recipe for a run of so many steps. A longer run takes more zeroth-order steps, each of which
/// is mostly noise: their size falls with the number of steps.
Recipe with_length(Recipe recipe, std::int64_t total_steps);

/// Multiplies the logits of initial weights as the recipe says, by the exponent of the last layer.
void scale_logits(State& initial, const Recipe& recipe);

/// `options` with the values of the recipe for a step of a run.
StepOptions with_recipe(StepOptions options, const Recipe& recipe, std::int64_t done_steps,
                        std::int64_t total_steps);

}  // namespace triaccel::int8
