#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "bench/rate_families.h"
#include "triaccel/base/error.h"
#include "triaccel/device/device_choice.h"

// How close each of our kernels comes to what the GPU can do: microseconds at the shapes of the
// workloads, and the share of the copy bandwidth measured in the same process.

namespace triaccel::bench {
namespace {

struct Family {
  const char* name;
  void (*measure)(RateMeter&);
};

constexpr std::array kFamilies = {Family{"augment", augment_rates},
                                  Family{"batch-norm", batch_norm_rates},
                                  Family{"depthwise", depthwise_rates},
                                  Family{"channel-gate", channel_gate_rates},
                                  Family{"excitation", excitation_rates},
                                  Family{"max-pool", max_pool_rates},
                                  Family{"even-pixels", even_pixel_rates},
                                  Family{"stem-convolution", stem_convolution_rates},
                                  Family{"bias", bias_rates},
                                  Family{"cross-entropy", cross_entropy_rates},
                                  Family{"weight-copies", weight_copy_rates},
                                  Family{"update", update_rates},
                                  Family{"codecs", codec_rates}};

struct Arguments {
  RateMeterOptions options;
  std::vector<std::string> only;
};

bool wanted(const Arguments& arguments, const Family& family) {
  return arguments.only.empty() ||
         std::ranges::find(arguments.only, family.name) != arguments.only.end();
}

void measure_all(const Arguments& arguments) {
  require(at::hasCUDA(), "kernel_rates", "this machine has no usable CUDA device to measure");
  const c10::Device device = choose_device("cuda");
  set_arithmetic(/*deterministic=*/false);
  at::globalContext().setBenchmarkCuDNN(true);
  const at::NoGradGuard no_gradients;
  RateMeter meter(device, arguments.options);
  meter.measure_device();
  for (const Family& family : kFamilies)
    if (wanted(arguments, family)) family.measure(meter);
}

}  // namespace
}  // namespace triaccel::bench

int main(int count, char** words) {
  using namespace triaccel::bench;
  CLI::App program("Times the kernels of Tri-Accel on a GPU against the copy bandwidth");
  Arguments arguments;
  std::set<std::string> names;
  for (const Family& family : kFamilies) names.insert(family.name);
  program.add_option("families", arguments.only, "only these")->check(CLI::IsMember(names));
  program.add_flag("--torch", arguments.options.torch, "also time what the kernels replace");
  program.add_option("--jsonl", arguments.options.jsonl, "write one JSON object a line there");
  program.add_option("--samples", arguments.options.samples, "timings a kernel")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(program, count, words);
  try {
    measure_all(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
