#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "triaccel/telemetry/records/run_record.h"
#include "triaccel/telemetry/tables/table_cells.h"
#include "triaccel/telemetry/tables/table_groups.h"

namespace triaccel {

/// Our figures of a group as mean ± standard deviation, the paper's behind them.
TableCells table_cells(const TableGroup& group, PaperTable table);

/// "triaccel over fp32: accuracy +0.30 points, time -20.1 %, ...", and the paper's own behind
/// `before_paper` where it has both lines.
std::string gain_text(const TableGain& gain, std::string_view before_paper);

/// What the columns mean, what was left out and what was not run: one sentence each.
std::vector<std::string> table_notes(std::span<const TableGroup> groups, PaperTable table);

/// The whole table for a terminal, group by group, with gains and notes.
std::string table_text(std::span<const TableRow> rows, PaperTable table);

/// A row together with what its run left behind.
struct TableRun {
  TableRow row = {};
  RunRecord record = {};
};

/// The whole table as one HTML file: tables, gains and, folded under each, the plots of the runs of
/// its first seed.
std::string table_page(std::span<const TableRow> rows, PaperTable table,
                       std::span<const TableRun> runs);

/// Writes into `folder`, which is made where it is missing: result.json (rows already in it stay,
/// those of the same run are replaced) and, of this table, <name>.csv, <name>.txt and <name>.html.
/// Throws StorageError.
void write_table_files(const std::filesystem::path& folder, std::span<const TableRow> rows,
                       PaperTable table, std::span<const TableRun> runs);

}  // namespace triaccel
