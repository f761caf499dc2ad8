#include <fmt/core.h>

#include <memory>
#include <optional>
#include <string>

#include "cli/commands/commands.h"
#include "cli/output.h"
#include "cli/run_console.h"
#include "triaccel/base/error.h"
#include "triaccel/telemetry/console/progress_text.h"
#include "triaccel/telemetry/records/summary.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel::cli {
namespace {

struct ResumeArguments {
  std::string run;
  RunLength length;
  bool json = false;
  bool quiet = false;
};

int resume_command(const ResumeArguments& arguments) {
  read_run_config(arguments.run);  // throws if there is no run
  const RunLength& length = arguments.length;
  const bool longer = length.epochs != 0 || length.steps != 0;
  require(length.epochs == 0 || length.steps == 0, "--steps",
          "is given instead of --epochs, not together with it");
  require(length.epochs >= 0 && length.epochs <= 1e6, "--epochs", "must lie in (0, 1e6], got ",
          length.epochs);
  require(length.steps >= 0, "--steps", "must be positive, got ", length.steps);
  if (!longer && is_finished(arguments.run)) {
    say(
        fmt::format("triaccel: '{}' is already finished; nothing to resume (--epochs or --steps "
                    "extends it)\n",
                    printable(arguments.run)));
    print_result(read_summary(std::filesystem::path(arguments.run) / kSummaryFile), arguments.run,
                 arguments.json);
    return 0;
  }
  RunConsole console(arguments.quiet);
  const RunSummary summary =
      resume_run(arguments.run, console.hooks(), longer ? std::optional(length) : std::nullopt);
  print_result(summary, arguments.run, arguments.json);
  return exit_code_of(summary);
}

}  // namespace

void add_resume(CLI::App& program, int& exit_code) {
  CLI::App* command =
      program.add_subcommand("resume", "Continue a run from its latest checkpoint, or extend it");
  command->footer(
      "With --epochs or --steps a run, finished or not, continues to that length, counted from "
      "its\n"
      "start; the learning rate then follows the schedule of the new length from where the run "
      "is.");
  auto arguments = std::make_shared<ResumeArguments>();
  command->add_option("run", arguments->run, "folder of the run")->required();
  command->add_option("--epochs", arguments->length.epochs, "new length of the run, in epochs");
  command->add_option("--steps", arguments->length.steps, "new length of the run, in steps");
  command->add_flag("--json", arguments->json, "print the summary as JSON");
  command->add_flag("--quiet", arguments->quiet, "show no progress");
  command->callback([arguments, &exit_code] { exit_code = resume_command(*arguments); });
}

}  // namespace triaccel::cli
