#include "triaccel/int8/training/recipe.h"

namespace triaccel::int8 {

// Zeroth-order updates change the features early in a run, then decay so far that the
// backpropagated layers converge on almost constant features. A typical slope is about three units
// of 1/32 bit.
Recipe recipe_for(const Network& network, std::int32_t bp_layers, bool sign_only) {
  const std::int32_t unit = sign_only ? kSignOnly : 11;
  if (bp_layers == 0)
    return {.noise = {.reach = 15},
            .slope_exponent = unit,
            .rate_exponent = sign_only ? StepSchedule{3, 5} : StepSchedule{4, 7}};
  if (bp_layers == network.layer_count()) return {.gradient_bits = {4, 2}};
  return {
      .noise = {.reach = 7},
      .slope_exponent = unit,
      .rate_exponent = sign_only ? StepSchedule{3, 11} : StepSchedule{4, bp_layers == 1 ? 10 : 12},
      .gradient_bits = {bp_layers == 1 ? 3 : 4, 1},
      .saturated_share = 6554};
}

StepOptions with_recipe(StepOptions options, const Recipe& recipe, std::int64_t done_steps,
                        std::int64_t total_steps) {
  options.noise = recipe.noise;
  options.slope_exponent = recipe.slope_exponent;
  options.rate_exponent = recipe.rate_exponent.at(done_steps, total_steps);
  options.gradient_bits = recipe.gradient_bits.at(done_steps, total_steps);
  options.saturated_share = recipe.saturated_share;
  return options;
}

}  // namespace triaccel::int8
