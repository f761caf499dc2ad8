#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "triaccel/data/dataset.h"
#include "triaccel/trainer/measure/saved_survey.h"

namespace triaccel {

/// Error of the gradient from compressed activations, over many random offsets of rounding.
/// Relative to the square of the exact gradient's norm.
struct GradientQuality {
  double held_ratio = 0;  // bytes FP32 saves, each tensor once, over bytes held
  double error = 0;       // mean square of the difference
  // Square of the mean difference, from products of differences under independent offsets: noise
  // has no part in it, and where there is no bias it comes out on either side of 0. NaN for one.
  double bias = 0;
  double cosine = 0;  // of the angle between them, mean
};

/// Compares gradients of one network, at its initial weights (RunConfig::Model::init_from), on one
/// batch: the first training samples, neither cropped nor flipped.
class GradientJudge {
 public:
  /// Of config.train.batch samples, in FP32. Needs a method that backpropagates.
  explicit GradientJudge(const RunConfig& config);

  /// Encodes the batch's saved tensors `draws` times, each time with new offsets.
  GradientQuality judge(const SavedSettings& settings, std::int64_t draws);

  const SavedSurvey& survey() const { return survey_; }

 private:
  at::Tensor gradient(SavedStore* store);

  RunConfig config_;
  RunParts parts_;
  SavedSurvey survey_;
  Batch batch_;
  at::Tensor exact_;  // double [parameters]
};

}  // namespace triaccel
