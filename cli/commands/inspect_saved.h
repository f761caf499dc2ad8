#pragma once

#include "triaccel/trainer/config/run_config.h"

namespace triaccel::cli {

/// Prints what one forward pass of a run saves for backward: who reads it, how many bytes a sample
/// it takes, and how it would be kept without loss.
void inspect_saved(const RunConfig& config, bool json);

}  // namespace triaccel::cli
