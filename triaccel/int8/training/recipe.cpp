#include "triaccel/int8/training/recipe.h"

#include <algorithm>

namespace triaccel::int8 {
namespace {

// Zeroth-order updates change the features early in a run, then decay so far that the
// backpropagated layers converge on almost constant features. A typical slope is three or four
// units.
//
// Zeroth order alone: an update below one unit of a weight is rounded to 0 or 1, and the variance
// of that rounding exceeds the update's. Perturbing one weight in eight, but further, gives as
// large a step with fewer roundings. The logits of Xavier weights and of pixels below 1 are so
// small that losses hardly differ; FP32 starts from Kaiming weights and normalized pixels.
Recipe recipe_for_images(const Network& network, std::int32_t bp_layers, bool sign_only) {
  if (bp_layers == 0 && sign_only)
    return {.noise = {.reach = 15}, .slope_exponent = kSignOnly, .rate_exponent = {3, 5}};
  if (bp_layers == 0)
    return {.noise = {.reach = 63, .zero_share = 57344},
            .slope_exponent = 12,
            .rate_exponent = {4, 8},
            .logit_gain = 2};
  if (bp_layers == network.layer_count()) return {.gradient_bits = {4, 2}};
  return {
      .noise = {.reach = 7},
      .slope_exponent = sign_only ? kSignOnly : 11,
      .rate_exponent = sign_only ? StepSchedule{3, 11} : StepSchedule{4, bp_layers == 1 ? 10 : 12},
      .gradient_bits = {bp_layers == 1 ? 3 : 4, 1},
      .saturated_share = 6554};
}

// Three coordinates spread over 64 channels, 128 over 1024: Xavier logits of such layers are 2^-6
// of what Kaiming weights give, and a last layer alone cannot make up for that.
constexpr std::int32_t kLogitGainOfPoints = 6;

// Last layers over features that hardly change learn faster from still larger logits. Nearly all
// weights are in the wide layers, where a direction through all of them tells little about each; in
// the narrow ones, few weights at a time, steps can be large enough to be rounded with little
// noise. Features that move fast cost the last layers more than they gain.
Recipe recipe_for_last_layers_of_points(const Network& network, std::int32_t bp_layers) {
  Recipe recipe = recipe_for_images(network, bp_layers, false);
  recipe.noise = {.reach = 31, .zero_share = 57344};
  recipe.slope_exponent = 10;
  recipe.rate_exponent = {6, 9};
  recipe.tuned_steps = 3000;
  recipe.logit_gain = kLogitGainOfPoints;
  recipe.zo_layers = network.feature_layers() - 1;
  recipe.clean_pass = true;
  return with_logit_gain(recipe, bp_layers == 1 ? 8 : 7);
}

}  // namespace

Recipe recipe_for(const Network& network, std::int32_t bp_layers, bool sign_only) {
  const bool points = std::ranges::any_of(
      network.layers, [](const Layer& layer) { return layer.kind == LayerKind::Points; });
  if (points && !sign_only && bp_layers > 0 && bp_layers < network.layer_count())
    return recipe_for_last_layers_of_points(network, bp_layers);
  Recipe recipe = recipe_for_images(network, bp_layers, sign_only);
  if (points && !sign_only) recipe.logit_gain = kLogitGainOfPoints;
  return recipe;
}

Recipe with_logit_gain(Recipe recipe, std::int32_t gain) {
  if (recipe.slope_exponent != kSignOnly)
    recipe.slope_exponent = std::max(0, recipe.slope_exponent + gain - recipe.logit_gain);
  recipe.logit_gain = gain;
  return recipe;
}

Recipe with_length(Recipe recipe, std::int64_t total_steps) {
  if (recipe.tuned_steps == 0) return recipe;
  std::int32_t halvings = 0;
  for (std::int64_t steps = recipe.tuned_steps + recipe.tuned_steps / 2; steps < total_steps;
       steps *= 2)
    ++halvings;
  for (std::int32_t* exponent : {&recipe.rate_exponent.first, &recipe.rate_exponent.last})
    *exponent = std::min(*exponent + halvings, kMostRateExponent);
  return recipe;
}

void scale_logits(State& initial, const Recipe& recipe) {
  initial.exponents.back() += recipe.logit_gain;
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
