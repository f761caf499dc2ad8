#pragma once

#include <span>
#include <vector>

#include "triaccel/core/saved_statistics.h"
#include "triaccel/saved/saved_sampler.h"

namespace triaccel {

/// Fills in what samples say about tensors: bands, ranges, density, variance. Tensors without a
/// sample stay as they are.
void measure_saved(std::span<SavedStatistics> tensors, const std::vector<SavedSample>& samples);

}  // namespace triaccel
