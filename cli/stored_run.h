#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "cli/run_console.h"
#include "triaccel/trainer/config/run_config.h"

namespace triaccel::cli {

/// Thrown to end a command whose run was interrupted by the user.
struct Interrupted {
  int exit_code;
};

/// Throws UsageError naming folder and key if the folder contains a run with another configuration.
/// Ignores output options, the data root, the measured kernels and the keys in `open` ("train.lr").
void require_same_run(const std::filesystem::path& folder, const RunConfig& planned,
                      const std::vector<std::string_view>& open = {});

/// Starts the run, resumes it, or returns its summary if finished. Throws Interrupted, UsageError
/// as above, and NumericalFailure if the final model has non-finite losses: evaluation skips such
/// batches, so the accuracy would cover only part of the samples.
RunSummary run_in(const std::filesystem::path& folder, const RunConfig& config, RunConsole& console,
                  const std::vector<std::string_view>& open = {});

}  // namespace triaccel::cli
