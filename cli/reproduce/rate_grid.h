#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/run_console.h"
#include "triaccel/trainer/config/run_config.h"

namespace triaccel::cli {

inline constexpr const char* kGridFile = "grid.json";

/// Learning rates and weight decays to choose from.
struct RateGrid {
  std::vector<double> rates = {};
  std::vector<double> decays = {};
  double epochs = 5;               // of a run that chooses between them
  std::filesystem::path out = {};  // holds grid.json and the runs, below grid/
};

/// The same run at another length; the warm-up keeps its share.
RunConfig of_length(RunConfig config, double epochs);

/// `config` with the rates that reach the highest accuracy on held-out training samples. All runs
/// of a group share one choice: it is made once, stored in grid.json and then read from there; a
/// process that finds another one making it waits. A point that diverges loses; NumericalFailure
/// when all do.
RunConfig tuned(RunConfig config, const std::string& group, const RateGrid& grid,
                RunConsole& console);

}  // namespace triaccel::cli
