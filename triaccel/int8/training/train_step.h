#pragma once

#include <cstdint>

#include "triaccel/int8/arena.h"
#include "triaccel/int8/layers/forward.h"
#include "triaccel/int8/threads.h"
#include "triaccel/int8/training/perturbation.h"
#include "triaccel/int8/training/state.h"
#include "triaccel/int8/training/weight_update.h"

namespace triaccel::int8 {

/// Which pass provides the activations for backpropagation.
enum class BackpropPass {
  Minus,  // the second perturbed pass: no extra cost
  Clean,  // a third pass with unperturbed weights
};

/// Training of the layers below the boundary.
enum class Head {
  ZerothOrder,
  Frozen,  // fixed weights: baseline for zeroth-order training
};

struct StepOptions {
  std::uint64_t seed = 0;
  std::int32_t bp_layers = 0;  // last layers trained with backpropagation
  /// First layers that are perturbed and trained by zeroth-order estimates, at most all below the
  /// boundary; those between keep their weights.
  std::int32_t zo_layers = kMostLayers;
  Head head = Head::ZerothOrder;

  NoiseShape noise = {};
  std::int32_t slope_exponent = kSignOnly;  // unit of the slope, see loss_slope
  std::int32_t rate_exponent = 3;           // zeroth-order step: slope · perturbation / 2^this
  std::int32_t gradient_bits = 3;           // backpropagation: largest step, in bits
  UpdateRounding rounding = UpdateRounding::Stochastic;
  BackpropPass backprop_pass = BackpropPass::Minus;
  bool shared_shifts = true;
  Exponents exponents = Exponents::PerSample;
  /// Fraction (in 2^-16) of a backpropagated layer's weights that may be saturated before its
  /// exponent is increased; 65536: never. Zeroth-order layers keep their exponent, since it defines
  /// the unit of their noise.
  std::uint32_t saturated_share = 65536;

  std::int32_t micro_batch = 32;  // samples processed together; 0: all
  const char* kernel = "auto";
  Threads threads = {};
};

/// The paper's conventions: one exponent per tensor, pseudo-stochastic rounding, separate shifts
/// per pass, steps by the sign of the slope.
StepOptions paper_conventions(StepOptions options);

struct StepReport {
  std::int64_t loss[2] = {0,
                          0};  // of the plus and minus pass, 2^-16 bit; equal without perturbation
  std::int32_t slope = 0;      // from one to the other, see loss_slope
  std::int32_t correct = 0;    // samples classified correctly in the first pass
};

/// One training step. All memory comes from `arena`, resized to the prediction of step_memory. The
/// result depends only on state, batch and options, not on kernel, threads or (with exponents per
/// sample) micro-batches.
StepReport train_step(State& state, const Batch& batch, const StepOptions& options, Arena& arena);

/// Replays a recorded step on the layers below the boundary, given the initial weights, options and
/// slopes.
void replay_step(State& state, std::int32_t slope, const StepOptions& options);

struct Evaluation {
  std::int64_t correct = 0;
  std::int64_t loss = 0;  // sum, 2^-16 bit
};

/// Classifies by the largest logit, the first of equals.
Evaluation evaluate(const State& state, const Batch& batch, const StepOptions& options,
                    Arena& arena);

}  // namespace triaccel::int8
