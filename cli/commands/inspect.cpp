#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/commands/inspect_parts.h"
#include "cli/config_options.h"
#include "cli/run_console.h"
#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/checkpoint/checkpoint_store.h"
#include "triaccel/formats/safetensors.h"
#include "triaccel/telemetry/console/progress_text.h"
#include "triaccel/telemetry/records/json_fields.h"
#include "triaccel/telemetry/records/run_record.h"
#include "triaccel/telemetry/records/summary.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/loop/run_status.h"

namespace triaccel::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string written = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    written += (i ? ", " : "") + std::to_string(shape[i]);
  return written + "]";
}

void inspect_tensors(const fs::path& path, bool json) {
  const TensorFile file = read_safetensors(path);
  std::int64_t elements = 0, bytes = 0;
  Json tensors = Json::array();
  for (const StateView& tensor : file.tensors) {
    const auto size = static_cast<std::int64_t>(tensor.bytes.size());
    elements += size / size_of(tensor.type);
    bytes += size;
    tensors.push_back({{"name", tensor.name},
                       {"type", name_of(tensor.type)},
                       {"shape", tensor.shape},
                       {"bytes", size}});
    if (!json)
      fmt::print("{:<48} {:<5} {:<20} {:>10}\n", printable(tensor.name), name_of(tensor.type),
                 shape_text(tensor.shape), byte_text(size));
  }
  if (json) {
    const Json all = {{"file", path.string()},
                      {"tensors", tensors},
                      {"elements", elements},
                      {"bytes", bytes},
                      {"metadata", file.metadata}};
    fmt::print("{}\n", dump_line(all));
  } else {
    fmt::print("{} tensors, {} elements, {}\n", file.tensors.size(), elements, byte_text(bytes));
  }
}

/// Prints the gradient noise of compressed activations, if measured.
void print_compression(const RunRecord& record, const RunSummary& outcome) {
  const std::vector<double>& layers = outcome.compression_noise_by_layer;
  if (!layers.empty()) {
    const auto worst = std::ranges::max_element(
        layers, {}, [](double share) { return std::isfinite(share) ? share : -1; });
    const auto place = static_cast<std::size_t>(worst - layers.begin());
    const std::vector<std::string>& names = record.metrics.info.layer_names;
    fmt::print(
        "compression adds {:.3g} % to the mini-batch noise; largest in {}: {:.3g} % of its squared "
        "gradient\n",
        100 * outcome.compression_noise,
        place < names.size() ? printable(names[place]) : fmt::format("layer {}", place),
        100 * *worst);
  }
}

/// Verifies every byte of a checkpoint; returns the error, or "" if it is intact.
std::string damage_of(const CheckpointStore& store, std::int64_t step) {
  try {
    store.load(step);
    return "";
  } catch (const StorageError& error) {
    return error.what();
  }
}

void inspect_run(const fs::path& directory, bool json) {
  const RunRecord record = read_run_record(directory, {.on_damage = say_warning});
  const RunSummary outcome = outcome_now(directory);
  const CheckpointStore store(directory / kCheckpointFolder);
  Json checkpoints = Json::array();
  for (std::int64_t step : store.steps())
    checkpoints.push_back({{"step", step}, {"damage", damage_of(store, step)}});
  if (json) {
    const Json all = {{"run", directory.string()},
                      {"summary", Json::parse(to_json(outcome))},
                      {"checkpoints", checkpoints},
                      {"config", record.config}};
    fmt::print("{}\n", dump_line(all));
    return;
  }
  fmt::print("{}: {}, {} on {} with {}, {} steps, accuracy {:.2f} %, peak {}\n",
             printable(directory.string()), printable(outcome.status), printable(outcome.model),
             printable(outcome.data), printable(outcome.method), outcome.steps, outcome.accuracy,
             byte_text(outcome.peak_bytes));
  print_compression(record, outcome);
  fmt::print("\ncheckpoints\n");
  for (const Json& checkpoint : checkpoints) {
    const auto damage = checkpoint["damage"].get<std::string>();
    fmt::print("  step {:>8}  {}\n", checkpoint["step"].get<std::int64_t>(),
               damage.empty() ? "ok" : printable(damage));
  }
  fmt::print("\n{}", printable(record.config, "\n"));
}

void inspect(const fs::path& path, bool json) {
  std::error_code error;  // a path that cannot be followed leads to nothing
  require(fs::exists(path, error), "inspect", "'", path.string(), "' does not exist");
  if (fs::is_regular_file(path, error)) return inspect_tensors(path, json);
  if (holds_run(path)) return inspect_run(path, json);
  const fs::path weights = path / "weights.safetensors";  // a checkpoint directory
  require(fs::is_regular_file(weights, error), "inspect", "'", path.string(),
          "' is neither a run, a checkpoint nor a safetensors file");
  inspect_tensors(weights, json);
}

}  // namespace

void add_inspect(CLI::App& program) {
  struct Arguments {
    std::unique_ptr<ConfigOptions> options;
    std::string path;
    GradientQuestions questions;
    std::string bit_widths;
    bool saved = false;
    bool gradients = false;
    bool json = false;
  };
  CLI::App* command = program.add_subcommand(
      "inspect", "Show a run, a checkpoint, a safetensors file, or the activations a model saves");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("path", arguments->path,
                      "run directory, checkpoint directory or safetensors file");
  command->add_flag("--saved", arguments->saved,
                    "without a path: list the activations a forward pass saves for backward");
  command->add_option("--bit-widths", arguments->bit_widths,
                      "--saved: also write the codec and bit widths of every tensor under "
                      "--activations to this folder, as saved.html, .json and .csv");
  command->add_flag("--gradients", arguments->gradients,
                    "of a run: compare gradients from compressed activations with exact ones");
  GradientQuestions& questions = arguments->questions;
  const std::vector<CLI::Option*> asked{
      command->add_option("--ratios", questions.ratios, "--gradients: compression ratios to test")
          ->delimiter(',')
          ->default_str("10.2,12"),
      command->add_option("--samples", questions.samples, "--gradients: batch size")
          ->capture_default_str(),
      command
          ->add_option("--draws", questions.draws,
                       "--gradients: how often to encode with new random offsets")
          ->capture_default_str()};
  command->add_flag("--json", arguments->json, "print JSON");
  RunConfig defaults;
  defaults.train.batch = 4;
  arguments->options = std::make_unique<ConfigOptions>(*command, defaults);
  command->callback([arguments, defaults, asked] {
    for (const CLI::Option* option : asked)
      require(arguments->gradients || option->count() == 0, option->get_name(),
              "only has an effect with --gradients");
    require(arguments->saved || arguments->bit_widths.empty(), "--bit-widths",
            "only has an effect with --saved");
    if (arguments->saved) {
      const RunConfig config = arguments->options->config(defaults, Runs::One);
      require(arguments->path.empty(), "inspect --saved", "does not take a path, got '",
              arguments->path, "'");
      if (!arguments->bit_widths.empty()) write_bit_widths(config, arguments->bit_widths);
      return inspect_saved(config, arguments->json);
    }
    if (arguments->gradients) {
      const RunConfig config = arguments->options->changed(defaults, {"--activation-rounding"});
      arguments->questions.rounding = config.activations.rounding;
      return inspect_gradients(arguments->path, arguments->questions, arguments->json);
    }
    require(!arguments->path.empty(), "inspect",
            "pass a run directory or file, or use --saved with the options of a run");
    arguments->options->changed(defaults, {});
    inspect(arguments->path, arguments->json);
  });
}

}  // namespace triaccel::cli
