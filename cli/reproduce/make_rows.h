#pragma once

#include <fmt/format.h>

#include <vector>

#include "cli/stored_run.h"

namespace triaccel::cli {

/// Makes the planned rows one by one and ends the table; the program's exit code. A signal ends it
/// at a checkpoint of the row at work, and the same command goes on there.
template <typename Table, typename Plan>
int make_rows(Table& table, const std::vector<Plan>& plans) {
  try {
    for (const Plan& plan : plans) table.make(plan);
  } catch (const Interrupted& interrupted) {
    fmt::print(stderr, "interrupted; the same command goes on where it stopped\n");
    return interrupted.exit_code;
  }
  return table.finish();
}

}  // namespace triaccel::cli
