#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "triaccel/core/code_noise.h"
#include "triaccel/core/curvature_report.h"
#include "triaccel/core/memory_report.h"
#include "triaccel/core/predicted_blocks.h"
#include "triaccel/core/saved_counts.h"

namespace triaccel {

/// All that a zeroth-order step did to its weights, given the seed: with these and the first
/// weights a run can be redone.
struct ZerothOrderStep {
  std::int64_t step = 0;              // steps done before it
  double learning_rate = 0;           // of the zeroth-order layers
  std::vector<float> gradients = {};  // projected on each direction; 0: the step was skipped
  bool operator==(const ZerothOrderStep&) const = default;
};

/// Statistics of one layer's gradients, after unscaling, in the last step of an interval.
struct LayerSignals {
  std::int64_t count = 0;  // elements
  double sum = 0;
  double sum_of_squares = 0;
  float absolute_maximum = 0;
  std::int64_t nonfinite = 0;  // elements that are infinite or not a number
  // What FP16 would do to them under the layer's own scale: round to zero, keep with fewer bits.
  std::int64_t fp16_zeros = 0;
  std::int64_t fp16_subnormals = 0;
  float fp16_scale = 1;  // a power of two; the one the counts above assume
  bool operator==(const LayerSignals&) const = default;

  double variance() const {
    if (count == 0) return 0;
    const double mean = sum / static_cast<double>(count);
    return sum_of_squares / static_cast<double>(count) - mean * mean;
  }
};

/// The measurements of one control interval: all that a policy or a sink gets to see.
struct StepReport {
  std::int64_t step = 0;     // optimizer steps done in the run
  std::int64_t samples = 0;  // samples trained in the run
  double epoch = 0;          // samples over the size of the training set
  double progress = 0;       // share of the run's schedule that is done
  std::int64_t interval_steps = 0;
  std::int64_t interval_samples = 0;
  double seconds = 0;   // wall time of the interval
  double loss = 0;      // mean over the interval's samples with a finite loss; infinity if none has
  double accuracy = 0;  // share of the interval's predictions that were right, in [0, 1]
  double learning_rate = 0;  // of the last step, before per-layer scales
  double gradient_norm = 0;  // of the last step, before clipping
  double loss_scale = 1;
  std::int64_t skipped_steps = 0;      // in the interval, because a gradient was not finite
  std::int64_t consecutive_skips = 0;  // up to the last step
  std::int64_t skipped_layer = -1;  // of the first skip: the layer nearest the loss that caused it
  std::int64_t nonfinite_losses = 0;  // forward passes of the interval whose loss was no number
  std::int64_t memory_retries = 0;    // steps of the interval redone smaller after out of memory
  MemoryReport memory = {};
  std::vector<LayerSignals> layers = {};           // index = LayerId
  std::optional<CurvatureReport> curvature = {};   // when a probe ran in the interval
  std::vector<ZerothOrderStep> zeroth_order = {};  // of the interval, where layers train that way
  std::optional<SavedCounts> saved = {};  // of the last forward pass, where a plan compresses
  std::optional<CompressionNoise> code_noise =
      {};                             // when profiling measured it since the last report
  std::int64_t saved_nonfinite = 0;   // encoded ranges of the interval that were not finite
  PredictionCounts predictions = {};  // of the interval, where plans predict blocks
  // What these predictions save of a pass, as last measured; negative: it takes that much longer.
  double prediction_seconds = 0;
};

}  // namespace triaccel
