#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace triaccel::cli {

struct GradientQuestions {
  std::vector<double> ratios = {10.2, 12};  // of our own codec, over FP32
  std::int64_t samples = 64;                // of the batch
  std::int64_t draws = 16;                  // of offsets
  std::string rounding = "dither";          // of our own codec
};

/// Prints how near gradients from coded activations are to exact ones, at the newest checkpoint of
/// a run: ours at each ratio, with bands dropped at the price of the last and of the first steps of
/// a run, and codecs that the program registered.
void inspect_gradients(const std::filesystem::path& run, const GradientQuestions& questions,
                       bool json);

}  // namespace triaccel::cli
