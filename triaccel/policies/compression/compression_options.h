#pragma once

#include <cstdint>

namespace triaccel {

enum class CompressionMode {
  Off,       // every saved tensor stays as it is
  Lossless,  // masks, places and sizes in place of values; gradients keep every bit
  Offload,   // the same, and large tensors that it leaves as they are in host memory
  Ratio,     // as few bits as a ratio asks for, where they matter least
  Error,     // as few bits as an error of the gradient lets through
};

/// What the planner may do to saved tensors.
struct CodecOptions {
  // A codec, or a whole plan, must promise an error this much lower than the present one's: a new
  // plan makes captured steps void, and predictions err too.
  double hysteresis = 0.1;
  int nonlinear_bits = 5;  // least for what a gradient is not linear in, while the budget lets it
  int attention_bits = 8;  // likewise
  // A ReLU's output is rebuilt from its norm's input when that has as many bits; what a smooth
  // function gives, when that input's relative error is below `derived_error`: its bias grows with
  // the error's square.
  int derived_bits = 4;
  double derived_error = 0.01;
  bool frequency = true;  // each off: the codec is not used
  bool nonzeros = true;
  bool derive = true;
  bool operator==(const CodecOptions&) const = default;
};

/// How far training lets compression go.
struct LoopOptions {
  bool adapt = true;           // off: the ratio stays what it is
  double target_ratio = 10.2;  // bytes an FP32 run saves, each tensor once, over bytes held
  double most_ratio = 0;   // the floor of the bytes held; 0: the target. Where noise is far below
                           // its target, bytes shrink to it, until noise is half its target
  double least_ratio = 4;  // how far accuracy may push the ratio down
  double start_ratio = 0;  // 0: the target

  double guard_points = 0.5;   // of validation accuracy
  double guard_loss = 0.05;    // where there is no accuracy: of the best training loss, relative
  double noise_target = 0.05;  // variance of compression over that of mini-batches
  double grow = 1.08;          // of the bytes, at least, when the noise is above its target
  double guard_grow = 1.25;    // when accuracy drops by more than the guard …
  std::int64_t frozen_epochs = 3;  // … after which bytes do not shrink so long
  std::int64_t quiet_epochs = 3;   // after as many …
  double quiet_shrink = 0.95;      // … bytes shrink

  // Deviations of the training loss above its mean that count as a spike. They are estimated from
  // about ten intervals only, so that four occur by chance.
  double spike_deviations = 6;
  std::int64_t lossless_steps = 50;
  double spike_grow = 1.5;

  bool operator==(const LoopOptions&) const = default;
};

struct CompressionOptions {
  CompressionMode mode = CompressionMode::Off;
  double error_bound = 0.01;  // Error: AC-GC's eps, relative variance of a weight's gradient
  double offload_share = 1;   // Offload: of the bytes, from the first tensor on
  CodecOptions codecs = {};
  LoopOptions loop = {};
  bool operator==(const CompressionOptions&) const = default;
};

/// Throws UsageError, naming the field, for values no run can have.
void check_options(const CompressionOptions& options);

}  // namespace triaccel
