#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/config_options.h"
#include "triaccel/base/version.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/trainer/step_timing.h"

namespace triaccel::cli {
namespace {

struct BenchArguments {
  std::unique_ptr<ConfigOptions> options;
  int warmup = -1;
  int samples = 20;
  bool json = false;
};

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

void bench_step(const BenchArguments& arguments) {
  const RunConfig config = arguments.options->config();
  const c10::Device device = choose_device(config.device.device);
  const StepTiming timing = time_steps(config, {.warmup_steps = arguments.warmup,
                                                .samples = arguments.samples,
                                                .steps_per_sample = device.is_cuda() ? 10 : 1});
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"bench", "step"},
                                         {"model", config.model.name},
                                         {"stem", config.model.stem},
                                         {"data", config.data.name},
                                         {"image_size", config.data.image_size},
                                         {"batch", config.train.batch},
                                         {"method", config.train.method},
                                         {"device", device_text(device)},
                                         {"ms", timing.ms},
                                         {"ms_p10", timing.ms_p10},
                                         {"ms_p90", timing.ms_p90},
                                         {"samples", arguments.samples},
                                         {"allocated_mb", megabytes(timing.peak_allocated_bytes)},
                                         {"reserved_mb", megabytes(timing.peak_reserved_bytes)},
                                         {"commit", build_commit()}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{} {}, batch {}, {} on {}\n", config.model.name, config.model.stem,
             config.train.batch, config.train.method, device_text(device));
  fmt::print("  step      {:.2f} ms  (10 % to 90 %: {:.2f} to {:.2f})\n", timing.ms, timing.ms_p10,
             timing.ms_p90);
  fmt::print("  allocated {:.1f} MB, reserved {:.1f} MB, data set left out\n",
             megabytes(timing.peak_allocated_bytes), megabytes(timing.peak_reserved_bytes));
}

}  // namespace

void add_bench(CLI::App& program) {
  CLI::App* command = program.add_subcommand("bench", "Measure");
  command->require_subcommand(1);
  CLI::App* step = command->add_subcommand("step", "Time one training step");
  auto arguments = std::make_shared<BenchArguments>();
  arguments->options = std::make_unique<ConfigOptions>(*step);
  step->add_option("--warmup", arguments->warmup,
                   "steps before the clock runs (negative: 5, on a GPU 12)")
      ->capture_default_str();
  step->add_option("--samples", arguments->samples, "timings taken")->capture_default_str();
  step->add_flag("--json", arguments->json, "as JSON");
  step->callback([arguments] { bench_step(*arguments); });
}

}  // namespace triaccel::cli
