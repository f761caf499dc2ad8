// The options of the control loop, method "triaccel".
#include "triaccel/trainer/config/options.h"

namespace triaccel {
namespace {

/// Which layers compute in which precision.
void add_precision_options(std::vector<Option>& all) {
  using P = PrecisionOptions;
  OptionTable p(
      all, "control", topics::kPrecision,
      [](auto& c) -> auto& { return c.control.precision_rules; }, &kControlLoop);
  p.add("--variance-decay", "variance_decay", &P::beta,
        "decay per interval of the moving average of gradient variances")
      .below(0, 1);
  p.add("--tau-low", "tau_low", &P::tau_low,
        "paper policy: FP16 below this gradient variance (0: none if --tau-high is set)")
      .at_least(0)
      .only_with(kPaperPolicy);
  p.add("--tau-high", "tau_high", &P::tau_high,
        "paper policy: FP32 above this gradient variance (0: choose both from the layers)")
      .at_least(0)
      .only_with(kPaperPolicy);
  p.add("--prefer-fp16", "prefer_fp16", &P::prefer_fp16,
        "robust policy: FP16 instead of BF16 where its range suffices")
      .strictly_with(kControlLoop);
  p.add("--dwell", "dwell", &P::dwell_ticks,
        "control intervals before a layer may move to a lower precision")
      .at_least(0);
  p.add("--most-changes", "most_changes", &P::changes_per_tick,
        "most layers that change precision per control interval")
      .at_least(1);
}

/// How a layer's learning rate follows its curvature.
void add_curvature_options(std::vector<Option>& all) {
  using O = RunConfig::Control;
  OptionTable o(
      all, "control", topics::kCurvature, [](auto& c) -> auto& { return c.control; },
      &kControlLoop);
  o.add("--curvature-every", "curvature_every", &O::curvature_every,
        "steps between two measurements of curvature")
      .at_least(1);
  o.add("--curvature-batch", "curvature_batch", &O::curvature_batch,
        "samples per measurement of curvature")
      .at_least(2);
  o.add("--curvature-top", "curvature_top", &O::curvature_top,
        "largest eigenvalues to estimate per layer")
      .at_least(1);
  o.add("--curvature-block", "curvature_block", &O::curvature_block,
        "parameters per layer: weight, or layer (with bias; hessian: and batch norm)");
  using R = CurvatureRules;
  OptionTable r(
      all, "control", topics::kCurvature,
      [](auto& c) -> auto& { return c.control.curvature_rules; }, &kControlLoop);
  r.add("--alpha", "alpha", &R::alpha,
        "paper policy: a layer's learning rate is lr / (1 + alpha * eigenvalue)")
      .between(0, 1e9)
      .only_with(kPaperPolicy);
  r.add("--tau-curvature", "tau_curvature", &R::tau,
        "use a higher precision for layers with more curvature (0: automatic, -1: off)")
      .between(-1, 1e300);
  r.add("--curvature-cap", "curvature_cap", &R::cap,
        "cap on a layer's learning rate, times its curvature limit (0: 1 for hessian, else 10)")
      .between(0, 1e9)
      .only_with(kRobustPolicy);
  r.add("--smallest-rate", "smallest_rate", &R::rate_floor,
        "lowest learning rate of a layer, times the schedule's (0: 0.1 for policy paper, else 1)")
      .between(0, 1);
}

/// How the batch size follows the memory.
void add_batch_options(std::vector<Option>& all) {
  using B = BatchOptions;
  OptionTable b(
      all, "control", topics::kBatch, [](auto& c) -> auto& { return c.control.batch_rules; },
      &kControlLoop);
  b.add("--rho-low", "rho_low", &B::rho_low,
        "grow the batch while activations use less than this fraction of their budget")
      .above(0, 1);
  b.add("--rho-high", "rho_high", &B::rho_high,
        "shrink the batch when activations use more than this fraction of their budget")
      .above(0, 1);
  b.add("--batch-up", "batch_up", &B::delta_up, "paper policy: samples added when the batch grows")
      .at_least(1)
      .only_with(kPaperPolicy);
  b.add("--batch-down", "batch_down", &B::delta_down,
        "paper policy: samples removed when the batch shrinks")
      .at_least(1)
      .only_with(kPaperPolicy);
  b.add("--smallest-batch", "smallest_batch", &B::smallest,
        "smallest batch size (0: 8; with --batch-control micro: 2 per forward pass)")
      .at_least(0);
  b.add("--largest-batch", "largest_batch", &B::largest,
        "largest batch size (0: four times the first)")
      .at_least(0);
  using O = RunConfig::Control;
  OptionTable o(
      all, "control", topics::kBatch, [](auto& c) -> auto& { return c.control; }, &kControlLoop);
  o.add("--batch-growth", "batch_growth", &O::batch_growth,
        "robust policy: grow as the learning rate falls (schedule) or any time (free)")
      .only_with(kRobustPolicy);
  o.add("--batch-rate", "batch_rate", &O::batch_rate,
        "how the learning rate follows the batch size: none, linear, sqrt, adascale or auto");
  b.add("--noise-share", "noise_share", &B::kappa,
        "largest batch size, as a multiple of the gradient noise scale (0: no limit)")
      .between(0, 1e9);
}

}  // namespace

void add_control_options(std::vector<Option>& all) {
  using O = RunConfig::Control;
  OptionTable o(
      all, "control", topics::kControl, [](auto& c) -> auto& { return c.control; }, &kControlLoop);
  o.add("--policy", "policy", &O::policy,
        "rules of decision: robust (recommended), or paper (the published equations)")
      .strictly_with(kControlLoop);
  o.topic(topics::kMemory);
  o.add("--precision", "precision", &O::precision,
        "triaccel: auto (chosen per layer), fp32, bf16, fp16 or off")
      .everyday()
      .strictly_with(kControlLoop);
  o.add("--weight-casts", "weight_casts", &O::weight_casts,
        "triaccel on a GPU: round weights to 16 bits once per step, or per layer (less memory)")
      .strictly_with(kControlLoop);
  o.topic(topics::kCurvature);
  o.add("--curvature", "curvature", &O::curvature,
        "how curvature is measured: fisher_gram (cheap), hessian or off")
      .strictly_with(kControlLoop);
  o.topic(topics::kBatch);
  o.add("--batch-control", "batch", &O::batch,
        "adapt the batch size (elastic), only the samples per forward pass (micro), or off")
      .strictly_with(kControlLoop);
  o.topic(topics::kControl);
  o.add("--replay", "replay", &O::replay,
        "repeat the decisions in the plans.jsonl of an earlier run")
      .strictly_with(kControlLoop);
  o.add("--kernels", "kernels", &O::kernels,
        "CPU kernels per layer: auto (by rule), measured (at start), stock (libtorch's) or a list")
      .filled_in();
  add_precision_options(all);
  add_curvature_options(all);
  add_batch_options(all);
}

}  // namespace triaccel
