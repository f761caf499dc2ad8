#include <fmt/core.h>

#include <memory>
#include <string>

#include "cli/commands/commands.h"
#include "cli/run_console.h"
#include "triaccel/telemetry/console/progress_text.h"
#include "triaccel/telemetry/records/summary.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel::cli {
namespace {

struct ResumeArguments {
  std::string run;
  bool json = false;
  bool quiet = false;
};

int resume_command(const ResumeArguments& arguments) {
  read_run_config(arguments.run);  // throws if there is no run
  if (is_finished(arguments.run)) {
    fmt::print(stderr, "triaccel: '{}' is already finished; nothing to resume\n",
               printable(arguments.run));
    print_result(read_summary(std::filesystem::path(arguments.run) / kSummaryFile), arguments.run,
                 arguments.json);
    return 0;
  }
  RunConsole console(arguments.quiet);
  const RunSummary summary = resume_run(arguments.run, console.hooks());
  print_result(summary, arguments.run, arguments.json);
  return exit_code_of(summary);
}

}  // namespace

void add_resume(CLI::App& program, int& exit_code) {
  CLI::App* command =
      program.add_subcommand("resume", "Continue an interrupted run from its latest checkpoint");
  auto arguments = std::make_shared<ResumeArguments>();
  command->add_option("run", arguments->run, "folder of the run")->required();
  command->add_flag("--json", arguments->json, "print the summary as JSON");
  command->add_flag("--quiet", arguments->quiet, "show no progress");
  command->callback([arguments, &exit_code] { exit_code = resume_command(*arguments); });
}

}  // namespace triaccel::cli
