#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands/commands.h"
#include "cli/config_options.h"
#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/base/version.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/first_product.h"
#include "triaccel/telemetry/records/json_fields.h"
#include "triaccel/trainer/measure/largest_batch.h"
#include "triaccel/trainer/measure/step_timing.h"

namespace triaccel::cli {
namespace {

struct BenchArguments {
  std::unique_ptr<ConfigOptions> options;
  int warmup = -1;
  int samples = 20;
  bool json = false;
};

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

double memory_ratio(const StepTiming& of, const StepTiming& to) {
  return static_cast<double>(of.peak_allocated_bytes) /
         static_cast<double>(to.peak_allocated_bytes);
}

/// Compression ratio: bytes an FP32 run saves, each tensor once, over bytes stored.
double held_ratio(const SavedCounts& saved) {
  return static_cast<double>(saved.fp32_bytes) /
         static_cast<double>(std::max<std::int64_t>(1, saved.all_held_bytes()));
}

void bench_step(const BenchArguments& arguments) {
  require(arguments.warmup >= -1, "--warmup", "must be at least -1, got ", arguments.warmup);
  require(arguments.samples >= 1, "--samples", "must be at least 1, got ", arguments.samples);
  const RunConfig config = arguments.options->config({}, Runs::One);
  check_first_product(/*always=*/false);
  const c10::Device device = choose_device(config.device.device);
  const StepTimingOptions options{.warmup_steps = arguments.warmup,
                                  .samples = arguments.samples,
                                  .steps_per_sample = device.is_cuda() ? 10 : 1};
  // Measures the forward passes of zeroth-order training first, since memory that libraries
  // allocate later counts against the step.
  std::optional<StepTiming> forwards;
  if (uses_zeroth_order(config)) forwards = time_forward_passes(config, options, /*passes=*/2);
  const StepTiming timing = time_steps(config, options);
  if (arguments.json) {
    nlohmann::ordered_json json = {{"bench", "step"},
                                   {"model", config.model.name},
                                   {"stem", config.model.stem.name()},
                                   {"data", config.data.name},
                                   {"image_size", config.data.image_size},
                                   {"batch", timing.batch},
                                   {"method", config.train.method.name()},
                                   {"device", device_text(device)},
                                   {"ms", timing.ms},
                                   {"ms_p10", timing.ms_p10},
                                   {"ms_p90", timing.ms_p90},
                                   {"samples", arguments.samples},
                                   {"allocated_mb", megabytes(timing.peak_allocated_bytes)},
                                   {"reserved_mb", megabytes(timing.peak_reserved_bytes)},
                                   {"commit", build_commit()}};
    if (timing.saved) {
      json["activations"] = config.activations.keep.name();
      json["held_mb"] = megabytes(timing.saved->all_held_bytes());
      json["held_ratio"] = held_ratio(*timing.saved);
      json["fp32_mb"] = megabytes(timing.saved->fp32_bytes);
      json["activation_allocations"] = timing.saved->allocations;
      json["activation_allocated_mb"] = megabytes(timing.saved->allocated_bytes);
    }
    if (forwards) {
      json["two_forwards_ms"] = forwards->ms;
      json["two_forwards_ms_p10"] = forwards->ms_p10;
      json["two_forwards_ms_p90"] = forwards->ms_p90;
      json["inference_mb"] = megabytes(forwards->peak_allocated_bytes);
      json["times_two_forwards"] = timing.ms / forwards->ms;
      json["times_inference_memory"] = memory_ratio(timing, *forwards);
    }
    fmt::print("{}\n", dump_line(json));
    return;
  }
  fmt::print("{} {}, batch {}, {} on {}\n", config.model.name, config.model.stem.name(),
             timing.batch, config.train.method.name(), device_text(device));
  fmt::print("  step      {:.2f} ms  (10 % to 90 %: {:.2f} to {:.2f})\n", timing.ms, timing.ms_p10,
             timing.ms_p90);
  fmt::print("  allocated {:.1f} MB, reserved {:.1f} MB, without the data set\n",
             megabytes(timing.peak_allocated_bytes), megabytes(timing.peak_reserved_bytes));
  if (timing.saved)
    fmt::print("  activations {:.1f} MB, compressed {:.2f}x compared with FP32\n",
               megabytes(timing.saved->all_held_bytes()), held_ratio(*timing.saved));
  if (!forwards) return;
  fmt::print(
      "  two forward passes {:.2f} ms  ({:.2f} to {:.2f}): the step takes {:.3f} times that\n",
      forwards->ms, forwards->ms_p10, forwards->ms_p90, timing.ms / forwards->ms);
  fmt::print("  inference {:.1f} MB: the step takes {:.3f} times that\n",
             megabytes(forwards->peak_allocated_bytes), memory_ratio(timing, *forwards));
}

/// Two training steps per try, each of its own; nothing is written.
void bench_largest_batch(const BenchArguments& arguments) {
  RunConfig config = arguments.options->config();
  check_first_product(/*always=*/false);
  const c10::Device device = choose_device(config.device.device);
  const std::int64_t budget = config.device.budget.bytes_on(device_total_bytes(device));
  require(budget > 0, "--budget", "is required: the memory that training steps may use");
  config.device.budget = {};
  const std::int64_t batch = largest_batch(config, budget);
  if (arguments.json)
    fmt::print("{}\n", nlohmann::ordered_json{{"bench", "largest_batch"},
                                              {"model", config.model.name},
                                              {"method", config.train.method.name()},
                                              {"activations", config.activations.keep.name()},
                                              {"budget_bytes", budget},
                                              {"largest_batch", batch},
                                              {"device", device_text(device)},
                                              {"commit", build_commit()}}
                           .dump());
  else if (batch == 0)
    fmt::print("{} does not train in {}, not even with a batch of 1\n", config.model.name,
               byte_text(budget));
  else
    fmt::print("{}: largest batch {} in {}, without the data set\n", config.model.name, batch,
               byte_text(budget));
}

}  // namespace

void add_bench(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("bench", "Measure the speed and memory of a training step");
  command->require_subcommand(1);
  CLI::App* step = command->add_subcommand(
      "step", "Time one training step; with zo methods also two forward passes for comparison");
  auto arguments = std::make_shared<BenchArguments>();
  arguments->options = std::make_unique<ConfigOptions>(*step);
  step->add_option("--warmup", arguments->warmup,
                   "untimed steps before the measurement (-1: 5, or 12 on a GPU)")
      ->capture_default_str();
  step->add_option("--samples", arguments->samples, "number of timings")->capture_default_str();
  step->add_flag("--json", arguments->json, "print JSON");
  step->callback([arguments] { bench_step(*arguments); });
  CLI::App* largest = command->add_subcommand(
      "largest-batch", "Find the largest batch whose training steps fit into --budget");
  auto limits = std::make_shared<BenchArguments>();
  limits->options = std::make_unique<ConfigOptions>(*largest);
  largest->add_flag("--json", limits->json, "print JSON");
  largest->callback([limits] { bench_largest_batch(*limits); });
}

}  // namespace triaccel::cli
