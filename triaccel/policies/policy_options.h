#pragma once

#include <cstdint>
#include <string_view>

#include "triaccel/core/curvature_report.h"

namespace triaccel {

/// Paper: the equations of Tri-Accel verbatim, with guards that keep them defined. Robust: what we
/// recommend, built from the same signals.
enum class PolicySet { Paper, Robust };

enum class BatchMode {
  Off,
  Elastic,  // the samples of a step follow the memory
  Micro,    // the samples of a step stay, those of a forward pass follow the memory
};

/// How the learning rate answers to another batch size.
enum class RateRule { None, Linear, Sqrt, AdaScale };

/// Which of the measured bytes count as used. Live tensors are blind to the pools of captured
/// graphs; reserved bytes fall only when the cache is released.
enum class MemorySignal { Peak, Reserved };

constexpr std::string_view name_of(PolicySet set) {
  switch (set) {
    case PolicySet::Paper:
      return "paper";
    case PolicySet::Robust:
      return "robust";
  }
  return "";
}

constexpr std::string_view name_of(BatchMode mode) {
  switch (mode) {
    case BatchMode::Off:
      return "off";
    case BatchMode::Elastic:
      return "elastic";
    case BatchMode::Micro:
      return "micro";
  }
  return "";
}

constexpr std::string_view name_of(RateRule rule) {
  switch (rule) {
    case RateRule::None:
      return "none";
    case RateRule::Linear:
      return "linear";
    case RateRule::Sqrt:
      return "sqrt";
    case RateRule::AdaScale:
      return "adascale";
  }
  return "";
}

/// What keeps the paper's equations defined. Each fires as an event; the robust set has them built
/// in.
struct PaperGuards {
  bool average_starts_at_first = true;  // off: v_l(0) = 0, which makes every layer FP16 at first
  bool no_negative_curvature = true;    // max(0, lambda)
  bool rate_floor = true;               // eta_l >= rate_floor * eta
  bool batch_bounds = true;             // smallest <= B <= largest; off: 1 <= B
  bool batch_rounding = true;           // B to a multiple of the bucket
  bool nonfinite = true;                // a layer with non-finite gradients goes up a rung
};

struct PrecisionOptions {
  double beta = 0.9;  // of the average of the gradient variance, in [0, 1)

  // What the device computes in at a useful speed. A missing BF16 becomes FP16, a missing FP16
  // becomes BF16, and FP32 stands in for both.
  bool has_bf16 = true;
  bool has_fp16 = true;

  // Paper: FP16 below tau_low, FP32 from tau_high on, BF16 between. Automatic: quantiles of log v
  // over the layers, taken once, at the end of the warm-up; BF16 until then.
  bool automatic = true;
  double tau_low = 0;
  double tau_high = 0;
  double quantile_low = 0.25;
  double quantile_high = 0.9;
  std::int64_t warmup_ticks = 4;

  // Robust. Without prefer_fp16 its ladder is BF16 / FP32: BF16 is what layers hand each other
  // anyway, is as fast, and has no range to watch.
  bool prefer_fp16 = false;
  double most_zeros = 1e-3;           // share of elements FP16 may round to zero
  double headroom_bits = 3;           // between the largest element and 65504
  double most_z = 1;                  // of log v among the layers of a kind: what counts as stable
  double hysteresis = 0.2;            // an FP16 layer may stay where another may not come in
  std::int64_t dwell_ticks = 4;       // how long a lower rung must be wanted before it is taken
  std::int64_t changes_per_tick = 4;  // layers, besides those that leave non-finite gradients

  // Both: this many skipped steps with non-finite gradients lift a layer for so many ticks.
  std::int64_t nonfinite_steps = 3;
  std::int64_t nonfinite_ticks = 40;
};

/// The cap that fits how lambda is measured. An eigenvalue of the Hessian is the curvature itself:
/// 1. The Fisher's largest one from a few samples is too large: n gradients that are almost
/// orthogonal give |g|^2 / n each, also where the curvature of the mean is small. A cap of 1 on it
/// held a run of ResNet-18 on CIFAR-10 at 0.64 of its rates on average over its first 2,400 steps;
/// 10 leaves it to catch what would really diverge.
constexpr double curvature_cap(CurvatureMode mode) {
  switch (mode) {
    case CurvatureMode::Hessian:
      return 1;
    case CurvatureMode::FisherGram:
      return 10;
  }
  return 1;
}

struct CurvatureRules {
  double alpha = 0.01;      // paper: eta_l = eta / (1 + alpha * lambda); unit 1 / lambda
  double rate_floor = 0.1;  // least share of the learning rate a layer keeps
  double cap = 1;           // robust: eta_l <= cap * 2 (1 + momentum) / lambda; see curvature_cap
  double momentum = 0.9;    // of the optimizer: heavy ball is stable up to 2 (1 + mu) / lambda
  double smoothing = 0.5;   // robust: of the average of log lambda, in [0, 1)
  double most_change = 4;   // robust: lambda moves by at most this factor a refresh
  double hysteresis = 0.2;  // a lifted layer comes down below tau (1 - hysteresis)

  // Above tau a layer is lifted a rung; 0: none is. Automatic, paper: tau is a quantile over the
  // layers at the first refresh. Automatic, robust: tau is where log lambda becomes an outlier.
  bool automatic = true;
  double tau = 0;
  double quantile = 0.9;
  double outlier_z = 3;  // median absolute deviations, scaled to a standard deviation
};

struct BatchOptions {
  BatchMode mode = BatchMode::Elastic;
  MemorySignal signal = MemorySignal::Peak;
  std::int64_t device_bytes = 0;  // ours at the start; the lower of it and the limit counts

  // Paper: shares of the limit; grow below, shrink above. Robust: shares of the room a batch has,
  // the limit less weights, optimizer state and data; grow up to, shrink above.
  double rho_low = 0.85;
  double rho_high = 0.93;

  // Samples of a step; in Micro mode samples of a pass.
  std::int64_t smallest = 8;  // never above the start
  std::int64_t largest = 0;   // 0: four times the start, in Micro mode the batch
  std::int64_t bucket = 8;    // samples of a pass come in multiples of it; Micro: equal passes

  std::int64_t delta_up = 16;  // paper, samples a tick
  std::int64_t delta_down = 16;

  std::int64_t cool_down_ticks = 2;  // robust: without growth after a shrink
  std::int64_t steady_ticks = 3;     // robust: a size that stood this long moves only when …
  double steady_gap = 0.03;          // … memory is this share of the room beyond the two above
  double measurement_noise = 0.01;   // robust: of all measured bytes, relative, either way
  std::int64_t retry_ticks = 100;    // robust and off: a size that ran out of memory is left alone
                                     // this long; doubled each time it fails again
  double kappa = 1;                  // robust: the batch grows up to kappa noise scales; 0: no cap
  bool wait_for_noise = false;       // robust: not at all before that scale was measured
  // Robust: the batch grows as the schedule lowers the rate, by as much and no more. With the rate
  // scaled to the batch, training then walks as it would have, in fewer steps (Smith et al. 2018);
  // any growth at the highest rate costs accuracy at equal epochs.
  bool grow_as_rate_falls = true;
  RateRule rate = RateRule::AdaScale;
};

/// All that decides how a run adapts. Every mechanism can be switched off on its own; with all of
/// them off the plan never changes.
struct ControlOptions {
  PolicySet set = PolicySet::Robust;
  bool precision_on = true;
  bool curvature_on = true;
  PrecisionOptions precision = {};
  CurvatureRules curvature = {};
  BatchOptions batch = {};  // off: BatchMode::Off
  PaperGuards guards = {};
};

/// The options of a set as published: the paper does not couple learning rate and batch.
ControlOptions default_options(PolicySet set);

/// Throws UsageError, naming the field, for values no run can have.
void check_options(const ControlOptions& options);

}  // namespace triaccel
