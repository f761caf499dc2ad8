#pragma once

#include <memory>

#include "triaccel/telemetry/console/progress_line.h"
#include "triaccel/trainer/loop/training_loop.h"

namespace triaccel::cli {

/// Runs training on this terminal: progress, or only warnings, on standard error, stop signals, and
/// a watchdog that ends the program.
class RunConsole {
 public:
  explicit RunConsole(bool quiet);
  TrainingHooks hooks();

 private:
  std::unique_ptr<Sink> shown_;
};

/// Shows what must be known even with --quiet.
void say_warning(const std::string& message);

/// 0, or 128 + the signal that stopped the run.
int exit_code_of(const RunSummary& summary);

/// Prints the result to standard output, as text or one line of JSON.
void print_result(const RunSummary& summary, const std::string& directory, bool json);

}  // namespace triaccel::cli
