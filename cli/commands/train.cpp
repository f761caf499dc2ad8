#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/config_options.h"
#include "cli/run_console.h"
#include "triaccel/data/load_data.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/telemetry/console/progress_text.h"
#include "triaccel/telemetry/records/json_fields.h"
#include "triaccel/trainer/config/config_text.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel::cli {
namespace {

struct TrainArguments {
  std::unique_ptr<ConfigOptions> options;
  bool print_config = false;
  bool json = false;
  bool quiet = false;
};

int train_command(const TrainArguments& arguments) {
  const RunConfig config = arguments.options->config({}, Runs::One);
  if (arguments.print_config) {
    if (arguments.json)
      fmt::print("{}\n", dump_line({{"config", to_toml(config)}}));
    else
      fmt::print("{}", printable(to_toml(config), "\n"));  // escapes as in TOML
    return 0;
  }
  const auto directory = new_run_directory(config);
  RunConsole console(arguments.quiet);
  const RunSummary summary = start_run(config, directory, console.hooks());
  print_result(summary, directory.string(), arguments.json);
  return exit_code_of(summary);
}

constexpr const char* kFooter =
    "A key of config.toml can also be set as key=value or table.key=value; --print-config\n"
    "shows all keys.\n\n"
    "Examples:\n"
    "  triaccel train --model lenet5 --epochs 3\n"
    "  triaccel train --model resnet18 --stem cifar --data cifar10 --data-root ~/data \\\n"
    "    --budget 2GB --epochs 30\n"
    "  triaccel train --model resnet18 --data fashion-mnist --activations compressed\n"
    "  triaccel train --model resnet18 --data ~/pets --init-from runs/first --new-head\n"
    "  triaccel train --config runs/first/config.toml --lr 0.02 --name second";

}  // namespace

void add_train(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "train", "Train a network and write checkpoints, metrics and a report");
  command->footer(kFooter);
  auto arguments = std::make_shared<TrainArguments>();
  arguments->options = std::make_unique<ConfigOptions>(*command);
  command->add_flag("--print-config", arguments->print_config,
                    "print the configuration as TOML and do not train");
  command->add_flag("--json", arguments->json, "print the summary as JSON");
  command->add_flag("--quiet", arguments->quiet, "show no progress");
  command->callback([arguments, &exit_code] { exit_code = train_command(*arguments); });
}

}  // namespace triaccel::cli
