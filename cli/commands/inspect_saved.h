#pragma once

#include "triaccel/trainer/config/run_config.h"

namespace triaccel::cli {

/// Lists the activations that one forward pass saves for backward: which operations read them,
/// bytes per sample, and the lossless codec of each.
void inspect_saved(const RunConfig& config, bool json);

}  // namespace triaccel::cli
