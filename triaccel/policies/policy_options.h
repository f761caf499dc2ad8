#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triaccel/core/step_report.h"

namespace triaccel {

/// Paper: the equations of the Tri-Accel paper, with guards that keep them well-defined. Robust:
/// the recommended policies, based on the same signals.
enum class PolicySet { Paper, Robust };

enum class BatchMode {
  Off,
  Elastic,  // adapts the batch size to the memory
  Micro,    // fixed batch size; adapts the forward-pass size to the memory
};

/// Scaling of the learning rate with the batch size.
enum class RateRule { None, Linear, Sqrt, AdaScale };

/// Which measurement counts as used memory. Peak of live tensors excludes the pools of captured
/// graphs; reserved bytes fall only when the cache is released.
enum class MemorySignal { Peak, Reserved };

/// Guards that keep the paper's equations well-defined. Each reports an event when it fires; built
/// into the robust policies.
struct PaperGuards {
  bool average_starts_at_first = true;  // off: v_l(0) = 0, so every layer starts in FP16
  bool no_negative_curvature = true;    // max(0, lambda)
  bool rate_floor = true;               // eta_l >= rate_floor * eta
  bool batch_bounds = true;             // smallest <= B <= largest; off: 1 <= B
  bool batch_rounding = true;           // B to a multiple of the bucket
  bool nonfinite = true;  // a layer with non-finite gradients moves to the next higher precision
};

struct PrecisionOptions {
  double beta = 0.9;  // decay of the average gradient variance, in [0, 1)

  // Formats the device supports at useful speed. Missing BF16 is replaced by FP16 and vice versa,
  // or by FP32 if both are missing.
  bool has_bf16 = true;
  bool has_fp16 = true;

  // Paper: FP16 below tau_low, FP32 from tau_high, otherwise BF16. Automatic: quantiles of log v
  // over the layers at the end of the warm-up; BF16 until then.
  bool automatic = true;
  double tau_low = 0;
  double tau_high = 0;
  double quantile_low = 0.25;
  double quantile_high = 0.9;
  std::int64_t warmup_ticks = 4;

  // Robust. Without prefer_fp16 only BF16 and FP32 are used: BF16 is the format of activations
  // anyway, as fast, and without overflow.
  bool prefer_fp16 = false;
  double most_zeros = 1e-3;  // maximum fraction of elements that FP16 rounds to zero
  double headroom_bits = 3;  // between the largest element and 65504
  double most_z = 1;         // maximum z-score of log v among layers of a kind to count as stable
  double hysteresis = 0.2;   // margin for layers not yet in FP16
  std::int64_t dwell_ticks = 4;       // ticks a lower precision must be requested before the change
  std::int64_t changes_per_tick = 4;  // layers, not counting those with non-finite gradients

  // Both: after this many skipped steps with non-finite gradients, a layer is promoted for this
  // many ticks.
  std::int64_t nonfinite_steps = 3;
  std::int64_t nonfinite_ticks = 40;
};

/// Default cap for a curvature mode. 1 for Hessian eigenvalues, which are the curvature itself. The
/// largest Fisher eigenvalue from a few samples overestimates it: n almost orthogonal gradients
/// give |g|^2 / n each, even if the curvature of the mean is small. A cap of 1 would lower learning
/// rates without need; 10 only catches actual divergence.
constexpr double curvature_cap(CurvatureMode mode) {
  switch (mode) {
    case CurvatureMode::Hessian:
      return 1;
    case CurvatureMode::FisherGram:
      return 10;
  }
  return 1;
}

/// Lowest learning-rate scale of a layer where a run names none. Lowering rates by curvature cost
/// EfficientNet-B0 a point of accuracy, gained nothing in ResNet-18 and did not keep LeNet-5 from
/// diverging: by default the robust policy leaves them.
constexpr double default_rate_floor(PolicySet set) { return set == PolicySet::Paper ? 0.1 : 1; }

struct CurvatureRules {
  double alpha = 0.01;      // paper: eta_l = eta / (1 + alpha * lambda); unit 1 / lambda
  double rate_floor = 0.1;  // minimum learning-rate scale of a layer; see default_rate_floor
  double cap = 1;           // robust: eta_l <= cap * 2 (1 + momentum) / lambda; see curvature_cap
  double momentum = 0.9;    // of the optimizer: heavy ball is stable up to 2 (1 + mu) / lambda
  double smoothing = 0.5;   // robust: decay of the average of log lambda, in [0, 1)
  double most_change = 4;   // robust: maximum factor of change per probe
  double hysteresis = 0.2;  // a promoted layer is demoted below tau (1 - hysteresis)

  // Above tau a layer is promoted to the next higher precision; 0: never. Automatic, paper: tau is
  // a quantile over the layers at the first probe. Automatic, robust: tau is where log lambda
  // becomes an outlier.
  bool automatic = true;
  double tau = 0;
  double quantile = 0.9;
  double outlier_z = 3;  // median absolute deviations, scaled to a standard deviation
};

struct BatchOptions {
  BatchMode mode = BatchMode::Elastic;
  MemorySignal signal = MemorySignal::Peak;
  std::int64_t device_bytes = 0;  // available at the start; the lower of it and the limit is used

  // Paper: fractions of the limit; grow below, shrink above. Robust: fractions of the memory
  // available to the batch, that is, the limit minus weights, optimizer state and data; grow up to,
  // shrink above.
  double rho_low = 0.85;
  double rho_high = 0.93;

  // Samples per step; in Micro mode samples per pass.
  std::int64_t smallest = 8;       // at most the initial size
  std::int64_t smallest_pass = 1;  // samples that the network needs; batch norm: two
  std::int64_t largest = 0;        // 0: four times the initial size, in Micro mode the batch
  std::int64_t bucket = 8;         // pass sizes are multiples of it; Micro: equal passes

  // Robust: a pass size that was measured to be the best under a limit; under that limit it stays,
  // or is grown back to. 0: none.
  std::int64_t planned_pass = 0;
  std::int64_t planned_limit = 0;

  std::int64_t delta_up = 16;  // paper: samples per tick
  std::int64_t delta_down = 16;

  std::int64_t cool_down_ticks = 2;  // robust: no growth after shrinking
  std::int64_t steady_ticks = 3;     // robust: a size steady for this long changes only if …
  double steady_gap =
      0.03;  // … memory is beyond the thresholds by this fraction of the available memory
  double measurement_noise = 0.01;  // robust: relative error of measured bytes
  std::int64_t retry_ticks = 100;   // robust and off: delay before a size that ran out of memory
                                    // is retried; doubled with each failure
  // Robust: maximum batch in units of the noise scale; 0: no limit. A sample of such a batch is
  // worth 1 / (1 + kappa) of one in a small batch (McCandlish et al. 2018).
  double kappa = 0.1;
  bool wait_for_noise = false;  // robust: no growth until the noise scale is measured
  // Robust: the batch grows only in proportion to the decay of the learning rate. With the learning
  // rate scaled to the batch, training then follows the same trajectory in fewer steps (Smith et
  // al. 2018); growth at the peak learning rate costs accuracy at equal epochs.
  bool grow_as_rate_falls = true;
  RateRule rate = RateRule::AdaScale;
};

/// Options of the control loop. Every mechanism can be disabled on its own; with all disabled the
/// plan never changes.
struct ControlOptions {
  PolicySet set = PolicySet::Robust;
  bool precision_on = true;
  bool curvature_on = true;
  PrecisionOptions precision = {};
  CurvatureRules curvature = {};
  BatchOptions batch = {};  // off: BatchMode::Off
  PaperGuards guards = {};
};

/// Default options of a policy set; the paper does not couple learning rate and batch size.
ControlOptions default_options(PolicySet set);

/// Throws UsageError naming the field for invalid values.
void check_options(const ControlOptions& options);

/// Messages about the decisions of a tick: plan changes and guards that fired.
using PolicyEvents = std::vector<std::string>;

}  // namespace triaccel
