#pragma once

#include "triaccel/core/saved_statistics.h"

namespace triaccel {

/// The largest relative error of a tensor whose codes add no more than eps / 2 of its square to a
/// weight's gradient: AC-GC's closed form where the gradients were measured, elsewhere what its
/// sensitivity tells. Measured on few samples it is strict for more: the share that codes have in a
/// gradient falls with the samples as long as their gradients agree, and stays where they do not.
double permitted_error(const SavedStatistics& tensor, double eps);

/// What the bound given to the planner is multiplied by, at most 1, so that the error measured
/// under its plans comes below the true bound: permitted errors count neither what several tensors
/// do to one weight nor what passes through norms and smooth functions. The same number: the plans
/// may stay. `may_grow`: bytes are given back where the error is far below the bound.
double corrected_scale(double scale, double measured_error, double bound, bool may_grow);

}  // namespace triaccel
