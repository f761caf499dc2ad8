#include "triaccel/telemetry/tables/table_rows.h"

#include <tuple>

#include "triaccel/telemetry/records/efficiency_score.h"
#include "triaccel/telemetry/records/row_list.h"

namespace triaccel {
namespace {

struct TableFields {
  template <typename Row, typename Field>
  static void visit(Row& row, Field&& field) {
    field("table", row.table);
    field("model", row.model);
    field("stem", row.stem);
    field("data", row.data);
    field("method", row.method);
    field("configuration", row.configuration);
    field("seed", row.seed);
    field("epochs", row.epochs);
    field("accuracy", row.accuracy);
    field("seconds_per_epoch", row.seconds_per_epoch);
    field("peak_allocated_mb", row.peak_allocated_mb);
    field("peak_reserved_mb", row.peak_reserved_mb);
    field("score", row.score);
    field("commit", row.commit);
    field("device", row.device);
    field("batch_final", row.batch_final);
    field("learning_rate", row.learning_rate);
    field("weight_decay", row.weight_decay);
    field("timed", row.timed);
  }
};
using TableList = RowList<TableRow, TableFields>;

auto key_of(const TableRow& row) {
  return std::tie(row.table, row.model, row.stem, row.data, row.method, row.configuration, row.seed,
                  row.epochs);
}

}  // namespace

TableRow table_row(const RunSummary& summary) {
  const auto megabytes = [&](std::int64_t peak) {
    return static_cast<double>(peak - summary.data_bytes) / 1e6;
  };
  return {.model = summary.model,
          .stem = summary.stem,
          .data = summary.data,
          .method = summary.method,
          .seed = summary.seed,
          .epochs = summary.epochs,
          .accuracy = summary.accuracy,
          .seconds_per_epoch = summary.seconds_per_epoch,
          .peak_allocated_mb = megabytes(summary.peak_bytes),
          .peak_reserved_mb = megabytes(summary.peak_reserved_bytes),
          .score = efficiency_score(summary),
          .commit = summary.commit,
          .device = summary.device,
          .batch_final = summary.batch_final};
}

bool same_run(const TableRow& a, const TableRow& b) { return key_of(a) == key_of(b); }

std::vector<TableRow> read_rows(const std::filesystem::path& path) { return TableList::read(path); }

std::vector<TableRow> record_rows(const std::filesystem::path& path,
                                  std::span<const TableRow> rows) {
  return TableList::record(path, rows);
}

std::string rows_json(std::span<const TableRow> rows) { return TableList::json(rows); }

std::string rows_csv(std::span<const TableRow> rows) { return TableList::csv(rows); }

}  // namespace triaccel
