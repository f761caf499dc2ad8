#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/loss_data/cross_entropy.h"

namespace triaccel::kernels {

/// Up to this many classes one thread takes a row.
inline constexpr std::int64_t kClassesOfAThread = 16;
inline constexpr std::int64_t kShortRowsOfABlock = 128;  // of threads
/// Up to this many classes one warp takes a row, beyond it a whole block.
inline constexpr std::int64_t kClassesOfAWarp = 256;
inline constexpr std::int64_t kRowsOfABlock = 8;  // of warps
inline constexpr std::int64_t kMaxParts = 1024;

/// e^x for x <= 0, within a few units of FP32's last place; NaN stays NaN. Free of branches, so
/// that loops over it vectorise; CUDA has an instruction.
TRIACCEL_HOST_DEVICE inline float exp_of_negative(float x) {
#ifdef __CUDA_ARCH__
  return __expf(x);
#else
  const float clamped = x < -87.0f ? -87.0f : x;
  // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
  const float shifted = clamped * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  const float polynomial =
      1.0f +
      r * (1.0f + r * (0.5f + r * (1.6666667e-1f +
                                   r * (4.1666668e-2f + r * (8.3333333e-3f + r * 1.3888889e-3f)))));
  const float power = float_from_bits((bits_of_float(shifted) + 127u) << 23);
  return x < -87.0f ? 0.0f : polynomial * power;
#endif
}

/// What a row has shown so far. Shifting by the largest logit keeps every exponential in range.
struct RowSums {
  Candidate best;
  float shift;         // the largest logit
  float exponentials;  // sum of e^(x - shift)
  float logits;        // sum of x
};

/// Of no logit. The shift is finite, so that sums of nothing can be joined.
TRIACCEL_HOST_DEVICE inline RowSums no_sums() { return {no_candidate(), -FLT_MAX, 0.0f, 0.0f}; }

TRIACCEL_HOST_DEVICE inline void add_logit(RowSums& sums, float x, std::int64_t index) {
  sums.best = better(sums.best, {x, index});
  if (x > sums.shift) {
    sums.exponentials *= exp_of_negative(sums.shift - x);
    sums.shift = x;
  }
  sums.exponentials += exp_of_negative(x - sums.shift);
  sums.logits += x;
}

TRIACCEL_HOST_DEVICE inline RowSums joined(const RowSums& a, const RowSums& b) {
  const float shift = a.shift > b.shift ? a.shift : b.shift;
  return {better(a.best, b.best), shift,
          a.exponentials * exp_of_negative(a.shift - shift) +
              b.exponentials * exp_of_negative(b.shift - shift),
          a.logits + b.logits};
}

/// NaN for a label that is no class.
TRIACCEL_HOST_DEVICE inline float row_loss(const RowSums& sums, float label_logit, bool valid,
                                           std::int64_t classes, float smoothing) {
  if (!valid) return NAN;
  const float log_sum = logf(sums.exponentials);
  const float loss = log_sum + (sums.shift - label_logit);
  if (smoothing == 0.0f) return loss;  // 0 * infinity would not be
  const float even = log_sum + (sums.shift - sums.logits / static_cast<float>(classes));
  return (1.0f - smoothing) * loss + smoothing * even;
}

/// What a row adds to the score.
TRIACCEL_HOST_DEVICE inline PartialScore row_score(const ClassifiedBatch& batch,
                                                   const RowSums& sums, std::int64_t label,
                                                   float label_logit) {
  const bool valid = label >= 0 && label < batch.classes;
  return {row_loss(sums, label_logit, valid, batch.classes, batch.label_smoothing),
          label >= 0 && sums.best.index == label ? 1 : 0, label >= 0 ? 1 : 0};
}

/// What the gradients of all rows have in common.
struct BatchGradient {
  float factor;         // but for the loss scale
  float target, other;  // what p should be at the label and elsewhere
};

TRIACCEL_HOST_DEVICE inline BatchGradient batch_gradient(const ClassifiedBatch& batch) {
  const float other = batch.label_smoothing / static_cast<float>(batch.classes);
  return {batch.weight / static_cast<float>(batch.rows), 1.0f - batch.label_smoothing + other,
          other};
}

TRIACCEL_HOST_DEVICE inline float loss_scale_of(const ClassifiedBatch& batch) {
  return batch.loss_scale != nullptr ? *batch.loss_scale : 1.0f;
}

/// What turns the logits of a row into its gradient.
struct RowGradient {
  float shift, inverse_sum;
  float factor;         // NaN for a label that is no class
  float target, other;  // as in BatchGradient
};

TRIACCEL_HOST_DEVICE inline RowGradient row_gradient(const BatchGradient& all, float loss_scale,
                                                     const RowSums& sums, bool valid) {
  return {sums.shift, 1.0f / sums.exponentials, valid ? loss_scale * all.factor : NAN, all.target,
          all.other};
}

TRIACCEL_HOST_DEVICE inline float gradient_of(float x, bool is_label, const RowGradient& row) {
  const float p = exp_of_negative(x - row.shift) * row.inverse_sum;
  return row.factor * (p - (is_label ? row.target : row.other));
}

TRIACCEL_HOST_DEVICE inline void add_part(PartialScore& all, const PartialScore& part) {
  all.loss += part.loss;
  all.correct += part.correct;
  all.predictions += part.predictions;
}

/// `all` is of every row of the batch.
TRIACCEL_HOST_DEVICE inline void add_batch(RunningScore& score, const PartialScore& all,
                                           const ClassifiedBatch& batch) {
  add_loss(score, static_cast<float>(all.loss / static_cast<double>(batch.rows)), batch.samples);
  score.correct += all.correct;
  score.predictions += all.predictions;
}

TRIACCEL_HOST_DEVICE inline void add_measured(RunningScore& score, const MeasuredLoss& loss,
                                              PartialScore* parts) {
  for (std::int64_t i = 0; i < loss.parts; ++i)
    parts[i] = {.loss = i == 0 ? double{*loss.mean} * static_cast<double>(loss.samples) : 0.0};
  add_loss(score, *loss.mean, loss.samples);
}

}  // namespace triaccel::kernels
