#include "cli/run_console.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>

#include "cli/exit_codes.h"
#include "cli/stop_signals.h"
#include "triaccel/base/byte_size.h"
#include "triaccel/telemetry/records/summary.h"

namespace triaccel::cli {
namespace {

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

void leave_hanging_run(const std::string& section, double seconds) {
  fmt::print(stderr,
             "\ntriaccel: no progress for {:.0f} s in section '{}'; giving up. 'triaccel resume' "
             "goes on from the last checkpoint; --watchdog-seconds sets the patience.\n",
             seconds, section);
  std::fflush(stderr);
  _exit(kHang);  // the stuck thread would keep an orderly exit waiting
}

}  // namespace

RunConsole::RunConsole(bool quiet) {
  if (!quiet) progress_ = std::make_unique<ProgressLine>(std::cerr, progress_options());
  watch_stop_signals();
}

TrainingHooks RunConsole::hooks() {
  TrainingHooks hooks{.stop_requested = [] { return stop_signal() != 0; },
                      .on_hang = leave_hanging_run};
  if (progress_) hooks.sinks.push_back(progress_.get());
  return hooks;
}

int exit_code_of(const RunSummary& summary) {
  return summary.status == "interrupted" ? 128 + stop_signal() : kOk;
}

void print_result(const RunSummary& summary, const std::string& directory, bool json) {
  if (json) {
    fmt::print("{}\n", to_json(summary));
    return;
  }
  fmt::print("{} after {} steps, {:.1f} s\n", summary.status, summary.steps, summary.seconds);
  if (!std::isnan(summary.accuracy))
    fmt::print("  test accuracy {:.2f} %, loss {:.4f}\n", summary.accuracy, summary.loss);
  fmt::print("  peak memory   {}{}\n", byte_text(summary.peak_bytes),
             summary.budget_bytes > 0 ? " of " + byte_text(summary.budget_bytes) : "");
  if (directory.empty()) return;
  fmt::print("  run           {}\n  report        {}/report.html\n", directory, directory);
  if (summary.status == "interrupted")
    fmt::print("  go on with    triaccel resume {}\n", directory);
}

}  // namespace triaccel::cli
