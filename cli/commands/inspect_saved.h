#pragma once

#include <filesystem>

#include "triaccel/trainer/config/run_config.h"

namespace triaccel::cli {

/// Lists the activations that one forward pass saves for backward: which operations read them,
/// bytes per sample, and the lossless codec of each.
void inspect_saved(const RunConfig& config, bool json);

/// Writes the codec and bit widths of every saved tensor under config.activations into `folder`,
/// which is made where it is missing: saved.html, saved.json and saved.csv.
void write_bit_widths(const RunConfig& config, const std::filesystem::path& folder);

}  // namespace triaccel::cli
