#include <fmt/format.h>

#include <algorithm>

#include "triaccel/base/error.h"
#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/telemetry/report/html_text.h"
#include "triaccel/telemetry/report/report_parts.h"
#include "triaccel/telemetry/tables/table_text.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

std::string_view title_of(PaperTable table) {
  switch (table) {
    case PaperTable::Table1:
      return "Table 1: accuracy, time and memory beside the paper's";
    case PaperTable::Table2:
      return "Table 2: what each part saves, beside the paper's";
  }
  return "";
}

/// Of each line of a group, the run of its lowest seed.
std::vector<ReportedRun> runs_of(const TableGroup& group, PaperTable table,
                                 std::span<const TableRun> runs) {
  std::vector<ReportedRun> reported;
  for (const TableLine& line : group.lines) {
    const TableRun* first = nullptr;
    for (const TableRun& run : runs) {
      const TableRow& row = run.row;
      const bool own = row.table == table && row.model == group.model && row.stem == group.stem &&
                       row.data == group.data && row.epochs == group.epochs &&
                       row.method == line.method && row.configuration == line.configuration;
      if (own && (first == nullptr || row.seed < first->row.seed)) first = &run;
    }
    if (first != nullptr)
      reported.push_back({first->record, outcome_of(first->record), line.label(), reported.size()});
  }
  return reported;
}

}  // namespace

std::string table_page(std::span<const TableRow> rows, PaperTable table,
                       std::span<const TableRun> runs) {
  const std::vector<TableGroup> groups = table_groups(rows, table);
  std::string body;
  for (const TableGroup& group : groups) {
    body += fmt::format("<section class=\"group\"><h2>{}</h2>{}<ul class=\"notices\">",
                        html_escaped(group.title()), html_table(table_cells(group, table)));
    for (const TableGain& gain : gains_of(group))
      body += fmt::format("<li>{}</li>", html_escaped(gain_text(gain, "; in the paper: ")));
    body += "</ul>";
    const std::vector<ReportedRun> reported = runs_of(group, table, runs);
    if (!reported.empty())
      body += "<details><summary>Plots of the first seed</summary>" + plots_section(reported) +
              layers_section(reported) + purposes_section(reported) + "</details>";
    body += "</section>\n";
  }
  body += "<section class=\"details\">" + html_list(table_notes(groups, table)) + "</section>\n";
  std::string devices;
  for (const TableRow& row : rows)
    if (row.table == table && devices.find(row.device) == devices.npos)
      devices += (devices.empty() ? "" : " · ") + row.device;
  return html_page(title_of(table), html_escaped(devices), body);
}

void write_table_files(const fs::path& folder, std::span<const TableRow> rows, PaperTable table,
                       std::span<const TableRun> runs) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure)
    throw StorageError(text("cannot make the folder ", folder.string(), ": ", failure.message()));
  const std::vector<TableRow> all = record_rows(folder / kResultFile, rows);
  std::vector<TableRow> own;
  for (const TableRow& row : all)
    if (row.table == table) own.push_back(row);
  const auto file = [&](const char* ending) {
    return folder / (std::string(name_of(table)) + ending);
  };
  write_atomically(file(".csv"), rows_csv(own));
  write_atomically(file(".txt"), table_text(own, table));
  write_atomically(file(".html"), table_page(own, table, runs));
}

}  // namespace triaccel
