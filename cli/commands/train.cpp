#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/config_options.h"
#include "cli/run_console.h"
#include "triaccel/data/load_data.h"
#include "triaccel/models/model_zoo.h"
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
      fmt::print("{}", to_toml(config));
    return 0;
  }
  const auto directory = new_run_directory(config);
  RunConsole console(arguments.quiet);
  const RunSummary summary = start_run(config, directory, console.hooks());
  print_result(summary, directory.string(), arguments.json);
  return exit_code_of(summary);
}

/// "Models: a, b, c" in lines of at most 100 characters.
std::string list_of(const std::string& title, const std::vector<std::string>& names) {
  std::string out = title;
  std::size_t line = title.size();
  for (const std::string& name : names) {
    const bool last = &name == &names.back();
    if (line + name.size() + 2 > 100) {
      out += "\n  ";
      line = 2;
    }
    out += " " + name + (last ? "\n" : ",");
    line += name.size() + 2;
  }
  return out;
}

std::string train_footer() {
  return "Methods: fp32\n"
         "  amp             mixed precision by libtorch's autocast\n"
         "  triaccel        adapts precision and learning rate per layer and the batch size to "
         "--budget\n"
         "  zo              no backpropagation: two forward passes per step, in inference memory\n"
         "  elasticzo       the same, with backpropagation for the last layers\n"
         "  elasticzo-int8  the same in 8-bit integers, for lenet5 and pointnet-plain\n" +
         list_of("Models:", model_names()) + list_of("Data sets:", all_data_names()) +
         "  or a path: a folder with one folder of PNG or JPEG images per class, or an .npz or\n"
         "  .safetensors file with arrays x and y, and x_test and y_test if there is a test set\n"
         "\nA key of config.toml can also be set as key=value or table.key=value; --print-config\n"
         "shows all keys.\n\n"
         "Examples:\n"
         "  triaccel train --model lenet5 --epochs 3\n"
         "  triaccel train --model resnet18 --stem cifar --data cifar10 --data-root ~/data \\\n"
         "    --method triaccel --budget 2GB --epochs 30\n"
         "  triaccel train --model resnet18 --data fashion-mnist --activations compressed\n"
         "  triaccel train --model resnet18 --data ~/pets --init-from runs/first --new-head\n"
         "  triaccel train --config runs/first/config.toml --lr 0.02 --name second";
}

}  // namespace

void add_train(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "train", "Train a network and write checkpoints, metrics and a report");
  command->footer(train_footer());
  auto arguments = std::make_shared<TrainArguments>();
  arguments->options = std::make_unique<ConfigOptions>(*command);
  command->add_flag("--print-config", arguments->print_config,
                    "print the configuration as TOML and do not train");
  command->add_flag("--json", arguments->json, "print the summary as JSON");
  command->add_flag("--quiet", arguments->quiet, "show no progress");
  command->callback([arguments, &exit_code] { exit_code = train_command(*arguments); });
}

}  // namespace triaccel::cli
