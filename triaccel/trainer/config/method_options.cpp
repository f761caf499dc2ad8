// The options of zeroth-order and integer training, and of saved activations.
#include "triaccel/core/codec_registry.h"
#include "triaccel/int8/training/perturbation.h"
#include "triaccel/int8/training/recipe.h"
#include "triaccel/trainer/config/options.h"

namespace triaccel {
namespace {

/// Whether a plan for the budget may compress activations.
bool may_compress(const RunConfig& config) {
  return config.activations.keep == "raw" && !(config.device.budget == Budget()) &&
         config.device.lossy == LossyMeans::Auto && !estimates_losses(config);
}
bool compresses(const RunConfig& config) {
  return config.activations.keep == "compressed" || may_compress(config);
}
bool bounds_error(const RunConfig& config) { return config.activations.keep == "bounded"; }
bool offloads(const RunConfig& config) { return config.activations.keep == "offloaded"; }
bool plans_bits(const RunConfig& config) {
  return config.activations.keep.plans_bits() || may_compress(config);
}
bool rounds(const RunConfig& config) {
  return !config.activations.keep.saves_exactly() || may_compress(config);
}
bool backpropagates(const RunConfig& config) { return !estimates_losses(config); }
bool moves_boundary(const RunConfig& config) {
  return config.train.method == TrainMethod::ElasticZo;
}
constexpr Condition kCompressed = {"--activations compressed, or a --budget", compresses};
constexpr Condition kBounded = {"--activations bounded", bounds_error};
constexpr Condition kOffloaded = {"--activations offloaded", offloads};
constexpr Condition kPlannedBits = {"--activations compressed or bounded, or a --budget",
                                    plans_bits};
constexpr Condition kRounded = {
    "--activations that lose precision, such as compressed, or a --budget", rounds};
constexpr Condition kBackprop = {"--method fp32, amp or triaccel", backpropagates};
constexpr Condition kZo = {"--method zo or elasticzo", uses_zeroth_order};
constexpr Condition kEstimates = {"--method zo, elasticzo or elasticzo-int8", estimates_losses};
constexpr Condition kBoundary = {"--method elasticzo or elasticzo-int8", has_boundary};
constexpr Condition kMovable = {"--method elasticzo", moves_boundary};
constexpr Condition kInt8 = {"--method elasticzo-int8", trains_in_integers};

}  // namespace

std::vector<std::string> activation_modes() {
  std::vector<std::string> modes = {"raw", "lossless", "offloaded", "compressed", "bounded"};
  for (const std::string_view codec : registered_codec_names()) modes.emplace_back(codec);
  return modes;
}

void add_zeroth_order_options(std::vector<Option>& all) {
  using Z = RunConfig::ZerothOrder;
  OptionTable z(
      all, "zeroth_order", topics::kZeroth, [](auto& c) -> auto& { return c.zeroth_order; }, &kZo);
  z.add("--zo-lr", "zo_lr", &Z::lr,
        "learning rate of zeroth-order layers (0: 6e-5, or 2e-5 with elasticzo)")
      .between(0, 1e9)
      .filled_in();
  z.add("--zo-decay", "zo_decay", &Z::decay, "factor on --zo-lr every --zo-decay-epochs")
      .above(0, 1);
  z.add("--zo-decay-epochs", "zo_decay_epochs", &Z::decay_epochs,
        "epochs between two decays of --zo-lr")
      .above(0, 1e9);
  z.add("--zo-epsilon", "zo_epsilon", &Z::epsilon, "size of the random perturbation of the weights")
      .above(0, 10);
  z.add("--zo-directions", "zo_directions", &Z::directions,
        "random directions per step, with two forward passes each")
      .between(1, 256)
      .strictly_with(kFloats)
      .only_with(kZo);
  z.add("--zo-one-sided", "zo_one_sided", &Z::one_sided,
        "one pass per direction and one with unperturbed weights, to backpropagate from")
      .strictly_with(kFloats)
      .only_with(kZo);
  z.add("--zo-sign", "zo_sign", &Z::sign, "use only the sign of the estimated slope")
      .only_with(kEstimates);
  z.add("--zo-clip", "zo_clip", &Z::clip, "clip the estimated slope (0: off)").between(0, 1e9);
  z.add("--zo-momentum", "zo_momentum", &Z::momentum,
        "momentum over the last steps, whose directions are generated again")
      .below(0, 1)
      .strictly_with(kFloats)
      .only_with(kZo);
  z.add("--zo-momentum-steps", "zo_momentum_steps", &Z::momentum_steps,
        "number of past steps that --zo-momentum covers")
      .between(1, 64);
  z.add("--zo-augment", "zo_augment", &Z::augment,
        "apply --augment under zo and elasticzo, too (off by default: they underfit)");
  z.add("--clean-pass", "clean_pass", &Z::clean_pass,
        "elasticzo: backpropagate from an extra pass with unperturbed weights")
      .only_with(kBoundary);
  z.add("--bp-layers", "bp_layers", &Z::bp_layers,
        "elasticzo: last layers that backpropagate (-1: what the budget allows; 2 without one)")
      .at_least(-1)
      .strictly_with(kBoundary);
  z.add("--move-boundary", "move_boundary", &Z::move_boundary,
        "elasticzo: adapt --bp-layers to memory and loss while training")
      .strictly_with(kMovable);
  z.add("--freeze-head", "freeze", &Z::freeze,
        "elasticzo: do not train the zeroth-order layers (for comparison)")
      .strictly_with(kBoundary);
}

void add_int8_options(std::vector<Option>& all) {
  using I = RunConfig::Int8;
  OptionTable i(
      all, "int8", topics::kInt8, [](auto& c) -> auto& { return c.int8; }, &kInt8);
  i.add("--int8-conventions", "conventions", &I::conventions,
        "one exponent per sample, or paper: per tensor, with its rounding and shifts");
  i.add("--int8-rate", "rate_exponent", &I::rate_exponent,
        "zeroth-order step size is 2^-N: N such as 4, or 3-6 to change it over the run");
  i.add("--int8-bits", "gradient_bits", &I::gradient_bits,
        "bits of backpropagated updates: such as 3, or 4-1 to change them over the run");
  i.add("--int8-reach", "reach", &I::reach,
        "largest perturbation, in units of a weight (-1: as recommended for the network)")
      .between(-1, int8::kMostReach);
  i.add("--int8-zo-layers", "zo_layers", &I::zo_layers,
        "first layers to train zeroth-order, others below --bp-layers stay (-1: recommended)")
      .between(-1, int8::kMostLayers);
  i.add("--int8-logit-gain", "logit_gain", &I::logit_gain,
        "multiply the logits of initial weights by 2^N (-1: as recommended for the network)")
      .between(-1, int8::kMostLogitGain);
  i.add("--int8-micro-batch", "int8_micro_batch", &I::micro_batch,
        "samples per forward pass (0: the whole batch)")
      .at_least(0);
  i.add("--int8-kernel", "kernel", &I::kernel,
        "CPU kernel: auto, scalar, neon, sdot, smmla, avx2, avxvnni, vnni (same results)");
}

void add_activation_options(std::vector<Option>& all) {
  using A = RunConfig::Activations;
  OptionTable a(
      all, "activations", topics::kMemory, [](auto& c) -> auto& { return c.activations; });
  a.add("--activations", "keep", &A::keep,
        "how to save activations: raw, lossless, offloaded to host memory, compressed or bounded")
      .everyday()
      .one_of(activation_modes)
      .hinting(
          "; bf16, actnn, gact and division are in the program triaccel_baselines of bench/papers")
      .renamed(ActivationMode::kFormerName, "compressed")
      .strictly_with(kBackprop);
  a.add("--activation-ratio", "ratio", &A::ratio,
        "compressed: how many times smaller than in FP32, 1 to 32; auto: as gradient noise allows")
      .everyday()
      .between(1, 32)
      .or_auto(RunConfig::Activations::kAutoRatio)
      .only_with(kCompressed);
  a.topic(topics::kActivations);
  a.add("--activation-least-ratio", "least_ratio", &A::least_ratio,
        "compressed: the ratio is never lowered below this")
      .at_least(1)
      .only_with(kCompressed);
  a.add("--activation-guard", "guard", &A::guard,
        "compressed: drop of accuracy, in percentage points, that lowers the ratio")
      .between(0, 100)
      .only_with(kCompressed);
  a.add("--activation-error", "error_bound", &A::error_bound,
        "bounded: relative variance that compression may add to a weight's gradient")
      .above(0, 1)
      .only_with(kBounded);
  a.add("--activation-adapt", "adapt", &A::adapt,
        "adapt the compression ratio to loss, accuracy and gradient noise while training")
      .only_with(kPlannedBits);
  a.add("--activation-profile-every", "profile_every", &A::profile_every,
        "largest number of steps between two profiles of activations, which reallocate bit widths")
      .alias("--activation-look-every")
      .formerly("look_every")
      .at_least(1)
      .only_with(kPlannedBits);
  a.add("--activation-rounding", "rounding", &A::rounding,
        "rounding of compressed values: dither, stochastic or nearest")
      .only_with(kRounded);
  a.topic(topics::kMemory);
  a.add("--offload-share", "offload_share", &A::offload_share,
        "offloaded: fraction of the bytes to keep in host memory, from the first saved on")
      .above(0, 1)
      .only_with(kOffloaded);
  a.add("--recompute-norms", "recompute_norms", &A::recompute_norms,
        "triaccel on a GPU: recompute batch-norm outputs for backward (same results)")
      .strictly_with(kControlLoop);
  a.add("--recompute-segments", "recompute_segments", &A::recompute_segments,
        "triaccel: fraction of activations to recompute for backward, by block (same results)")
      .between(0, 1)
      .strictly_with(kControlLoop);
}

}  // namespace triaccel
