#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "triaccel/trainer/config/run_config.h"

namespace triaccel::cli {

/// Lists the activations that one forward pass saves for backward: which operations read them,
/// bytes per sample, and the lossless codec of each.
void inspect_saved(const RunConfig& config, bool json);

/// Writes the codec and bit widths of every saved tensor under config.activations into `folder`,
/// which is made where it is missing: saved.html, saved.json and saved.csv. Throws UsageError where
/// one of them exists.
void write_bit_widths(const RunConfig& config, const std::filesystem::path& folder);

struct GradientQuestions {
  std::vector<double> ratios = {10.2, 12};  // of our codec, compared with FP32
  std::int64_t samples = 64;                // batch size
  std::int64_t draws = 16;                  // of random rounding offsets
  std::string rounding = "dither";          // of our codec
};

/// Compares gradients from compressed activations with exact ones, at the newest checkpoint of a
/// run: our codec at each ratio, with the drop prices of the last and of the first steps of a run,
/// and the codecs the program registered.
void inspect_gradients(const std::filesystem::path& run, const GradientQuestions& questions,
                       bool json);

}  // namespace triaccel::cli
