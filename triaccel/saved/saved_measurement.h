#pragma once

#include <span>
#include <vector>

#include "triaccel/core/saved_statistics.h"
#include "triaccel/saved/error_gains.h"
#include "triaccel/saved/saved_sampler.h"

namespace triaccel {

/// Fills in what samples say about tensors: bands, ranges, density, variance. Tensors without a
/// sample stay as they are.
void measure_saved(std::span<SavedStatistics> tensors, const std::vector<SavedSample>& samples);

/// Fills in what errors of tensors do to the gradients of weights. Of several that read a tensor,
/// the one it does most to counts.
void measure_gains(std::span<SavedStatistics> tensors, const SavedCensus& census,
                   const std::vector<ErrorGain>& gains);

}  // namespace triaccel
