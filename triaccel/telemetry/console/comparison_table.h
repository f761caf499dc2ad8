#pragma once

#include <span>
#include <string>

#include "triaccel/telemetry/sink.h"

namespace triaccel {

/// One run, or one that was skipped.
struct ComparisonRow {
  RunSummary summary = {};   // of a skipped run, only `method` is read
  std::string skipped = {};  // the reason; empty: the run took place
};

/// An aligned plain-text table, one line a row, ending in a line break. Speed and memory are given
/// as ratios to the first run that took place.
std::string comparison_table(std::span<const ComparisonRow> rows);

}  // namespace triaccel
