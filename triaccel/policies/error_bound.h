#pragma once

#include <cstdint>

#include "triaccel/core/saved_statistics.h"

namespace triaccel {

/// The largest relative error of a tensor whose codes add no more than eps / 2 of its square to a
/// weight's gradient.
///
/// AC-GC's closed form where the gradients were measured: codes of variance s^2 add
/// s^2 * elements * kernel_share * output_gradient_square. Elsewhere what its sensitivity tells.
double permitted_error(const SavedStatistics& tensor, std::int64_t samples, double eps);

}  // namespace triaccel
