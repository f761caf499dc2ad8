#include "triaccel/device/format_hardware.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <sstream>
#include <vector>

#include "triaccel/device/cuda_memory.h"

namespace triaccel {
namespace {

std::vector<std::string> read_cpu_features() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream features(line);
    return {std::istream_iterator<std::string>(features), {}};
  }
  return {};
}

/// Whether one of the words stands among the CPU's features.
bool cpu_has(std::initializer_list<const char*> words) {
  static const std::vector<std::string> features = read_cpu_features();
  return std::ranges::any_of(
      words, [](const char* word) { return std::ranges::find(features, word) != features.end(); });
}

}  // namespace

std::string missing_hardware(Precision precision, c10::Device device) {
  if (precision == Precision::Fp32) return "";
  if (device.is_cuda())
    return precision == Precision::Bf16 && cuda_capability() < 80 ? "needs compute capability 8.0"
                                                                  : "";
  if (precision == Precision::Bf16)
    return cpu_has({"avx512_bf16", "amx_bf16", "bf16"})
               ? ""
               : "the CPU has no BF16 instructions: values are rounded and computed in FP32";
  return cpu_has({"avx512_fp16", "amx_fp16", "asimdhp"})
             ? ""
             : "the CPU has no FP16 instructions: values are rounded and computed in FP32";
}

}  // namespace triaccel
