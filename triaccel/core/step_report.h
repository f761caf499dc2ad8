#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/core/saved_plan.h"

namespace triaccel {

/// What became of the tensors that one forward pass saved, and of those its backward has read.
/// Bytes are exact and known without asking the device.
struct SavedCounts {
  std::int64_t saved = 0;         // times that an operator saved a tensor, without constants
  std::int64_t passed_bytes = 0;  // of those, one tensor as often as it was saved
  std::int64_t unique_bytes = 0;  // each tensor once
  std::int64_t fp32_bytes = 0;    // of an FP32 run without fused operators, each tensor once
  std::array<std::int64_t, kSavedCodecs> held_bytes = {};  // by codec; masks count as Mask,
                                                           // Host lies in host memory
  std::int64_t allocations = 0;      // of memory for encoded tensors, one or many in each
  std::int64_t allocated_bytes = 0;  // by those, with what lies unused between
  std::int64_t shared = 0;      // times that a tensor was there already, and nothing was encoded
  std::int64_t derived = 0;     // times that it is rebuilt from another one
  std::int64_t mismatches = 0;  // times that it was not what the plan is for, and stayed raw
  std::int64_t decodes = 0;     // in backward
  std::int64_t shared_decodes = 0;  // times that it needed none: the last one's values were there

  std::int64_t host_bytes() const { return held_bytes[static_cast<std::size_t>(SavedCodec::Host)]; }

  /// On the device.
  std::int64_t all_held_bytes() const {
    std::int64_t sum = -host_bytes();
    for (const std::int64_t bytes : held_bytes) sum += bytes;
    return sum;
  }
  bool operator==(const SavedCounts&) const = default;
};

/// Noise that compression adds to the gradient of one layer's parameters. Squared norms.
struct LayerCompressionNoise {
  double variance = 0;  // due to the random offsets of rounding
  double square = 0;    // of the exact gradient
  bool operator==(const LayerCompressionNoise&) const = default;

  /// NaN where the layer has no gradient.
  double share() const { return variance / square; }
};

/// Noise that compressed activations add to the gradient of a few samples. Squared norms over all
/// parameters; of different samples, and under a loss scale, only their ratios can be compared.
struct CompressionNoise {
  double compression_variance = 0;  // due to the random offsets of rounding
  double batch_variance = 0;        // due to the choice of samples
  double error = 0;  // mean square of the difference from the exact gradient, over its own
  std::vector<LayerCompressionNoise> layers = {};  // index = LayerId
  bool operator==(const CompressionNoise&) const = default;

  std::vector<double> shares() const {
    std::vector<double> all;
    for (const LayerCompressionNoise& layer : layers) all.push_back(layer.share());
    return all;
  }
};

/// What a piece of device memory is for.
enum class MemoryPurpose { Weights, Gradients, Optimizer, Activations, Data, Workspace };

inline constexpr std::size_t kMemoryPurposes = 6;

constexpr std::string_view name_of(MemoryPurpose purpose) {
  constexpr std::string_view kNames[] = {"weights",     "gradients", "optimizer",
                                         "activations", "data",      "workspace"};
  return kNames[static_cast<std::size_t>(purpose)];
}

/// Device memory at one moment, in bytes.
struct MemoryReport {
  std::int64_t used = 0;      // in live tensors now
  std::int64_t peak = 0;      // most in live tensors since the last reset
  std::int64_t reserved = 0;  // most taken from the device since the last reset, pools of captured
                              // graphs included; >= peak
  std::int64_t limit = 0;     // the budget; 0: none
  std::array<std::int64_t, kMemoryPurposes> peak_by_purpose = {};  // index = MemoryPurpose
  bool operator==(const MemoryReport&) const = default;
};

/// How the curvature of a layer is estimated.
enum class CurvatureMode {
  Hessian,     // top eigenvalues of the layer's diagonal block of the loss's Hessian
  FisherGram,  // top eigenvalues of the layer's block of the empirical Fisher matrix
};

constexpr std::string_view name_of(CurvatureMode mode) {
  constexpr std::string_view kNames[] = {"hessian", "fisher_gram"};
  return kNames[static_cast<std::size_t>(mode)];
}

/// The loss around one layer's weights, seen from a small batch.
struct LayerCurvature {
  std::vector<double> eigenvalues = {};  // the largest first, signed; empty: not measured
  // From per-sample gradients g_i of the layer (fisher_gram only; both 0 otherwise):
  double gradient_noise = 0;   // trace of their covariance
  double gradient_signal = 0;  // squared norm of their mean, unbiased; may come out negative
  bool operator==(const LayerCurvature&) const = default;

  double largest() const { return eigenvalues.empty() ? 0 : eigenvalues.front(); }
};

/// One curvature probe over all layers.
struct CurvatureReport {
  CurvatureMode mode = CurvatureMode::FisherGram;
  std::int64_t step = 0;
  std::int64_t batch = 0;  // samples used; fewer than asked for when memory was short
  double seconds = 0;
  std::int64_t negative = 0;  // layers whose eigenvalue of largest magnitude is negative
  std::string skipped = {};   // why there was no probe; empty: there was one
  std::vector<LayerCurvature> layers = {};  // index = LayerId; empty when skipped
  bool operator==(const CurvatureReport&) const = default;
};

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
  std::int64_t largest_step = 0;  // samples of the interval's largest step; 0: not known
  double seconds = 0;             // wall time of the interval
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
  std::optional<CompressionNoise> compression_noise =
      {};                            // when profiling measured it since the last report
  std::int64_t saved_nonfinite = 0;  // encoded ranges of the interval that were not finite
};

}  // namespace triaccel
