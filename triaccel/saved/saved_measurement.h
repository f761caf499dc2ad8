#pragma once

#include <span>
#include <vector>

#include "triaccel/core/predicted_blocks.h"
#include "triaccel/core/saved_statistics.h"
#include "triaccel/saved/error_gains.h"
#include "triaccel/saved/saved_sampler.h"

namespace triaccel {

/// Fills in what samples say about tensors: bands, ranges, density, variance. Tensors without a
/// sample stay as they are.
void measure_saved(std::span<SavedStatistics> tensors, const std::vector<SavedSample>& samples);

/// What prediction finds in a channel_sample_of a tensor that is encoded as the plan, of Frequency,
/// says.
PredictionCounts measure_prediction(const SavedSample& sample, const SavedPlan& plan);

/// Fills in what errors of tensors do to the gradients of weights. Of several that read a tensor,
/// the one it does most to counts.
void measure_gains(std::span<SavedStatistics> tensors, const SavedCensus& census,
                   const std::vector<ErrorGain>& gains);

}  // namespace triaccel
