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
  bool by_epochs = false, by_steps = false;
  bool json = false;
  bool quiet = false;
};

int resume_command(const ResumeArguments& arguments) {
  read_run_config(arguments.run);  // throws if there is no run
  const RunLength& length = arguments.length;
  const bool longer = arguments.by_epochs || arguments.by_steps;
  require(!arguments.by_epochs || !arguments.by_steps, "--steps",
          "is given instead of --epochs, not together with it");
  require(!arguments.by_epochs || (length.epochs > 0 && length.epochs <= 1e6), "--epochs",
          "must lie in (0, 1e6], got ", length.epochs);
  require(!arguments.by_steps || length.steps > 0, "--steps", "must be positive, got ",
          length.steps);
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
      "start. The cosine schedule of the learning rate is computed again for the new length: after "
      "a\n"
      "finished run it rises to where the longer schedule is at this step, then falls to its end.\n"
      "Where the learning rate does not depend on the length (method zo, or within the same\n"
      "--warmup-epochs), the weights are those of a run that had this length from the start.\n\n"
      "Examples:\n"
      "  triaccel resume runs/first\n"
      "  triaccel resume runs/first --epochs 20");
  auto arguments = std::make_shared<ResumeArguments>();
  command->add_option("run", arguments->run, "folder of the run")->required();
  const CLI::Option* epochs =
      command->add_option("--epochs", arguments->length.epochs, "new length of the run, in epochs");
  const CLI::Option* steps =
      command->add_option("--steps", arguments->length.steps, "new length of the run, in steps");
  command->add_flag("--json", arguments->json, "print the summary as JSON");
  command->add_flag("--quiet", arguments->quiet, "show no progress");
  command->callback([arguments, epochs, steps, &exit_code] {
    arguments->by_epochs = epochs->count() > 0;
    arguments->by_steps = steps->count() > 0;
    exit_code = resume_command(*arguments);
  });
}

}  // namespace triaccel::cli
