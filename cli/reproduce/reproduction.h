#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/reproduce/rate_grid.h"
#include "triaccel/telemetry/tables/paper_figures.h"
#include "triaccel/telemetry/tables/table_rows.h"
#include "triaccel/trainer/config/run_config.h"

namespace triaccel::cli {

/// What `reproduce` is asked for.
struct Reproduction {
  PaperTable table = PaperTable::Table1;
  std::vector<std::string> models = {"resnet18", "resnet18-cifar", "efficientnet-b0"};
  std::vector<std::string> data = {"cifar10", "cifar100"};
  std::vector<std::string> methods = {"fp32", "amp", "triaccel"};
  std::vector<std::int64_t> seeds = {1, 2, 3};
  double epochs = 0;
  double timing_epochs = 0;  // > 0: times come from runs of this length
  double budget_share = 1;   // Tri-Accel's budget: this share of what FP32 took, the data aside
  bool quick = false;   // small networks and few samples: whether everything works, in a minute
  bool shared = false;  // other work runs on the machine: times do not count
  std::filesystem::path out = {};
  RunConfig base = {};  // data root, device, control options
  RateGrid grid = {};
};

/// One run of the table: how its row is named and how it is configured. The learning rate and the
/// budget are filled in when its turn comes.
struct PlannedRow {
  TableRow row = {};
  RunConfig config = {};
  std::string group() const;  // its name without the seed
  std::string name() const;   // of its folder
};

/// Every run, in the order in which they must be made: FP32 before what is measured against it.
std::vector<PlannedRow> planned_rows(const Reproduction& wanted);

}  // namespace triaccel::cli
