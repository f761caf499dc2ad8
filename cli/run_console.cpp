#include "cli/run_console.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "cli/exit_codes.h"
#include "cli/output.h"
#include "cli/stop_signals.h"
#include "triaccel/device/first_product.h"
#include "triaccel/telemetry/records/summary.h"

namespace triaccel::cli {
namespace {

bool shows_progress = false;

/// Whether both descriptors write to the same file, pipe or terminal.
bool same_destination(int a, int b) {
  struct stat first = {}, second = {};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

int terminal_columns() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool speaks_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const char* value = std::getenv(variable); value != nullptr && *value != '\0')
      return std::string(value).find("UTF-8") != std::string::npos ||
             std::string(value).find("utf8") != std::string::npos;
  return false;
}

ProgressOptions progress_options() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool terminal = isatty(STDERR_FILENO) != 0 && !(term && std::string(term) == "dumb");
  return {.terminal = terminal,
          .columns = terminal_columns(),
          .color = terminal && (no_color == nullptr || *no_color == '\0'),
          .unicode = speaks_utf8(),
          .current_columns = terminal_columns};
}

void exit_hanging_run(const std::string& section, double seconds) {
  say("\n");
  report_failure(kHang,
                 fmt::format("no progress for {:.0f} s in section '{}' (--watchdog-seconds); "
                             "continue from the last checkpoint with 'triaccel resume'",
                             seconds, section));
  std::fflush(stdout);
  _exit(kHang);  // a normal exit would block on the stuck thread
}

/// What must be known even with --quiet.
struct Warnings : Sink {
  void warning(const std::string& message) override { say_warning(message); }
};

}  // namespace

RunConsole::RunConsole(bool quiet) {
  check_first_product(/*always=*/false);
  if (quiet)
    shown_ = std::make_unique<Warnings>();
  else
    shown_ = std::make_unique<ProgressLine>(std::cerr, progress_options());
  shows_progress = !quiet;
  watch_stop_signals();
}

TrainingHooks RunConsole::hooks() {
  TrainingHooks hooks{.stop_requested = [] { return stop_signal() != 0; },
                      .on_hang = exit_hanging_run};
  hooks.sinks.push_back(shown_.get());
  return hooks;
}

void say_warning(const std::string& message) {
  say("triaccel: warning: " + printable(message, " ") + "\n");
}

int exit_code_of(const RunSummary& summary) {
  return summary.status == "stopped" ? 128 + stop_signal() : kOk;
}

void print_result(const RunSummary& summary, const std::string& directory, bool json) {
  if (json) {
    fmt::print("{}\n", to_json(summary));
    return;
  }
  // The progress display ends with the same line: print it once.
  if (!shows_progress || !same_destination(STDOUT_FILENO, STDERR_FILENO))
    fmt::print("{}\n", finish_line(summary));
  if (directory.empty()) return;
  const std::string shown = printable(directory);
  fmt::print("  run     {}\n  report  {}/report.html\n", shown, shown);
  if (summary.status == "stopped") fmt::print("  resume  triaccel resume {}\n", shown);
}

}  // namespace triaccel::cli
