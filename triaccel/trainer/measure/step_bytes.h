#pragma once

#include <cstdint>

#include "triaccel/int8/network.h"
#include "triaccel/int8/training/train_step.h"

namespace triaccel {

/// How the bytes of a training step are counted.
enum class ByteCount {
  /// Every buffer of the step once: outputs of maps, norms, ReLUs and pools, gradients and errors
  /// of backpropagated layers, in integers also the int32 sums of maps. Reproduces three of the
  /// four memory figures of ElasticZO's abstract, and BP / ZO = 2.
  Sum,
  /// The same, but hidden errors overwrite what is dead: of the last layers only gradients and the
  /// logits' errors. Reproduces the fourth.
  SumSharedErrors,
  /// The most that is alive at once, as an arena would hold it.
  Liveness,
};

/// Which network is counted, and how it trains. The layers are those of the integer networks, which
/// stand for their FP32 twins too.
struct CountedStep {
  int8::Network network = {};
  std::int64_t batch = 32;
  std::int64_t bp_layers = 0;  // the last ones; all of them: backpropagation
  bool norms = true;           // FP32: point maps have a norm instead of a bias
};

/// Bytes of a step in FP32: parameters, buffers, gradients. The batch itself is not counted.
std::int64_t fp32_step_bytes(const CountedStep& step, ByteCount count);

/// Bytes of an integer step; by liveness what `options` say about exponents, passes and threads
/// decides, and the result is Arena::high_water() plus the weights, exactly.
std::int64_t int8_step_bytes(const CountedStep& step, ByteCount count,
                             const int8::StepOptions& options = {});

}  // namespace triaccel
