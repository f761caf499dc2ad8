#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands/commands.h"
#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/checkpoint/run_lock.h"
#include "triaccel/telemetry/console/progress_text.h"
#include "triaccel/telemetry/records/json_fields.h"
#include "triaccel/trainer/loop/run_budget.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel::cli {
namespace {

struct BudgetArguments {
  std::string run;
  std::string size;  // "": only show it
  bool json = false;
};

/// When a run follows a new budget.
std::string from_when(const std::string& run) {
  if (is_run_locked(run)) return "from its next decision on";
  return is_finished(run) ? "if it is extended" : "when it is resumed";
}

void budget_command(const BudgetArguments& arguments) {
  const RunConfig config = read_run_config(arguments.run);  // throws if there is no run
  const Budget before = read_run_budget(arguments.run).value_or(config.device.budget);
  const Budget after = arguments.size.empty() ? before : Budget(arguments.size, "size");
  const bool changes = !arguments.size.empty();
  require(!changes || !trains_in_integers(config), "size", "'", arguments.run,
          "' trains in integers, which needs what it needs: it has no budget");
  if (changes) write_run_budget(arguments.run, after);
  const std::string when = changes ? from_when(arguments.run) : "";
  if (arguments.json) {
    nlohmann::ordered_json found = {{"run", arguments.run}, {"budget", after.text()}};
    if (changes) {
      found["before"] = before.text();
      found["takes_effect"] = when;
    }
    fmt::print("{}\n", dump_line(found));
  } else if (changes) {
    fmt::print("{}: budget {} -> {}, {}\n", printable(arguments.run), before.text(), after.text(),
               when);
  } else {
    fmt::print("{}: budget {}\n", printable(arguments.run), after.text());
  }
}

}  // namespace

void add_budget(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("budget", "Show the memory budget of a run, or change it");
  command->footer(
      "A run that trains follows within a control interval: it shrinks its passes or its batch "
      "where\n"
      "the new budget is smaller, and grows again where it is larger. No sample is lost.\n\n"
      "Examples:\n"
      "  triaccel budget runs/first\n"
      "  triaccel budget runs/first 2GB");
  auto arguments = std::make_shared<BudgetArguments>();
  command->add_option("run", arguments->run, "folder of the run")->required();
  command->add_option("size", arguments->size, "new budget: 300MiB, 2GB, 80% or none");
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments] { budget_command(*arguments); });
}

}  // namespace triaccel::cli
