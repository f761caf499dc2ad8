#include <fmt/core.h>

#include <memory>

#include "cli/commands/commands.h"
#include "cli/config_options.h"
#include "cli/run_console.h"
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
  const RunConfig config = arguments.options->config();
  if (arguments.print_config) {
    fmt::print("{}", to_toml(config));
    return 0;
  }
  const auto directory = new_run_directory(config);
  RunConsole console(arguments.quiet);
  const RunSummary summary = start_run(config, directory, console.hooks());
  print_result(summary, directory.string(), arguments.json);
  return exit_code_of(summary);
}

}  // namespace

void add_train(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand("train", "Train a network");
  command->footer("Any key can also be set as key=value or table.key=value.");
  auto arguments = std::make_shared<TrainArguments>();
  arguments->options = std::make_unique<ConfigOptions>(*command);
  command->add_flag("--print-config", arguments->print_config,
                    "print the resolved configuration as TOML and stop");
  command->add_flag("--json", arguments->json, "print the summary as JSON, on the last line");
  command->add_flag("--quiet", arguments->quiet, "no progress");
  command->callback([arguments, &exit_code] { exit_code = train_command(*arguments); });
}

}  // namespace triaccel::cli
