#pragma once

#include <cstdint>

#include "triaccel/int8/arena.h"
#include "triaccel/int8/layers/forward.h"
#include "triaccel/int8/threads.h"
#include "triaccel/int8/training/perturbation.h"
#include "triaccel/int8/training/state.h"
#include "triaccel/int8/training/weight_update.h"

namespace triaccel::int8 {

/// Which pass gives backpropagation its activations.
enum class BackpropPass {
  Minus,  // the second perturbed one: free
  Clean,  // a third one with the weights as stored
};

/// What the layers below the boundary do.
enum class Head {
  ZerothOrder,
  Frozen,  // keep their weights: the control that shows what zeroth order adds
};

struct StepOptions {
  std::uint64_t seed = 0;
  std::int32_t bp_layers = 0;  // the last layers, by backpropagation
  Head head = Head::ZerothOrder;

  NoiseShape noise = {};
  std::int32_t slope_exponent = kSignOnly;  // unit of the slope, see loss_slope
  std::int32_t rate_exponent = 3;           // zeroth-order step: slope · perturbation / 2^this
  std::int32_t gradient_bits = 3;           // backpropagation: largest step, in bits
  UpdateRounding rounding = UpdateRounding::Stochastic;
  BackpropPass backprop_pass = BackpropPass::Minus;
  bool shared_shifts = true;
  Exponents exponents = Exponents::PerSample;
  /// Share (in 2^-16) of a backpropagated layer's weights that may be saturated before its grid is
  /// widened; 65536: never. Zeroth-order layers keep their grid: their noise is counted in it.
  std::uint32_t saturated_share = 65536;

  std::int32_t micro_batch = 32;  // samples that run together; 0: all
  const char* kernel = "auto";
  Threads threads = {};
};

/// The paper's conventions: one exponent a tensor, pseudo-stochastic rounding, shifts of their own
/// in each pass, steps by the sign of the slope alone.
StepOptions paper_conventions(StepOptions options);

struct StepReport {
  std::int64_t loss[2] = {0, 0};  // of the plus and minus pass, 2^-16 bit; both equal without them
  std::int32_t slope = 0;         // from one to the other, see loss_slope
  std::int32_t correct = 0;       // samples the first pass classified rightly
};

/// One step of training. Everything it needs lies in `arena`, which it makes as large as
/// step_memory predicts. The result depends on state, batch and options alone, never on kernel,
/// threads or (with exponents per sample) micro-batches.
StepReport train_step(State& state, const Batch& batch, const StepOptions& options, Arena& arena);

/// Repeats what a recorded step did to the layers below the boundary: a run of them is its first
/// weights, its options and the slopes.
void replay_step(State& state, std::int32_t slope, const StepOptions& options);

struct Evaluation {
  std::int64_t correct = 0;
  std::int64_t loss = 0;  // sum, 2^-16 bit
};

/// Classifies by the largest logit, the first of equals.
Evaluation evaluate(const State& state, const Batch& batch, const StepOptions& options,
                    Arena& arena);

}  // namespace triaccel::int8
