#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "cli/run_console.h"
#include "triaccel/trainer/config/run_config.h"

namespace triaccel::cli {

/// Ends a command whose run the user stopped.
struct Interrupted {
  int exit_code;
};

/// Throws UsageError, naming folder and key, when the folder holds a run of another configuration.
/// Where a run is written and watched, where its data lie and which kernels it measured as fastest
/// do not count, nor does what `open` names ("train.lr").
void require_same_run(const std::filesystem::path& folder, const RunConfig& planned,
                      const std::vector<std::string_view>& open = {});

/// Makes the run, goes on with it, or takes it as it is when it is done. Throws Interrupted,
/// UsageError as above, and NumericalFailure when its final network gives no finite loss: an
/// evaluation leaves such batches out, so that its accuracy would be of fewer samples, or of none.
RunSummary run_in(const std::filesystem::path& folder, const RunConfig& config, RunConsole& console,
                  const std::vector<std::string_view>& open = {});

}  // namespace triaccel::cli
