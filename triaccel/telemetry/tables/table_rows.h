#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "triaccel/telemetry/sink.h"
#include "triaccel/telemetry/tables/paper_figures.h"

namespace triaccel {

inline constexpr const char* kResultFile = "result.json";

/// One run of a reproduction table. MB are 1e6 bytes, and memory is without the resident data set.
struct TableRow {
  PaperTable table = PaperTable::Table1;
  std::string model = {};
  std::string stem = {};
  std::string data = {};
  std::string method = {};
  std::string configuration = {};  // as PaperFigure names them; "" outside the ablation
  std::uint64_t seed = 0;
  double epochs = 0;
  double accuracy = 0;  // per cent
  double seconds_per_epoch = 0;
  double peak_allocated_mb = 0;
  double peak_reserved_mb = 0;
  double score = 0;
  std::string commit = {};
  std::string device = {};
  std::int64_t batch_final = 0;
  double learning_rate = 0;
  double weight_decay = 0;
  bool timed = true;  // the run had the machine to itself: only then its time and score count
  bool operator==(const TableRow&) const = default;
};

/// What a run's summary tells of its row; table, configuration, rates and `timed` are the caller's.
TableRow table_row(const RunSummary& summary);

/// Whether two rows are of the same run to be: equal in table, model, stem, data, method,
/// configuration, seed and epochs.
bool same_run(const TableRow& a, const TableRow& b);

/// Reads a list of rows as result.json holds it; none when there is no such file. Throws
/// StorageError naming file and row.
std::vector<TableRow> read_rows(const std::filesystem::path& path);

/// Puts rows into the file, those of the same run in their place, all or nothing, and answers with
/// all it then holds. Processes that record into one folder wait for each other.
std::vector<TableRow> record_rows(const std::filesystem::path& path,
                                  std::span<const TableRow> rows);

/// A JSON list with one row a line; a CSV table of the same columns.
std::string rows_json(std::span<const TableRow> rows);
std::string rows_csv(std::span<const TableRow> rows);

}  // namespace triaccel
