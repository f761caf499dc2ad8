#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/telemetry/console/progress_text.h"
#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/telemetry/report/html_text.h"
#include "triaccel/telemetry/report/report_parts.h"
#include "triaccel/telemetry/tables/elastic_table.h"
#include "triaccel/telemetry/tables/table_cells.h"
#include "triaccel/telemetry/tables/table_rows.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

using Format = ElasticCell ElasticLine::*;

void add_header(std::vector<std::string>& header, std::string_view format) {
  header.push_back(fmt::format("{}: seeds", format));
  header.insert(header.end(), {"accuracy %", "s/epoch", "peak MB"});
}

void add_cells(std::vector<std::string>& row, const ElasticCell& cell) {
  row.push_back(cell.seeds > 0 ? fmt::format("{}", cell.seeds) : "-");
  row.push_back(spread_cell(cell.accuracy, 2));
  row.push_back(spread_cell(cell.seconds_per_epoch, decimals_for(cell.seconds_per_epoch)));
  row.push_back(spread_cell(cell.megabytes, 3));
}

/// Columns of the number formats that any line ran in.
TableCells cells_of(const ElasticGroup& group) {
  TableCells cells{.header = {"method"}};
  for (const ElasticLine& line : group.lines) cells.rows.push_back({printable(line.label())});
  for (const auto& [name, format] :
       {std::pair<std::string_view, Format>{"FP32", &ElasticLine::fp32},
        {"INT8", &ElasticLine::int8}}) {
    const auto ran = [&](const ElasticLine& line) { return (line.*format).seeds > 0; };
    if (std::ranges::none_of(group.lines, ran)) continue;
    add_header(cells.header, name);
    for (std::size_t i = 0; i < group.lines.size(); ++i)
      add_cells(cells.rows[i], group.lines[i].*format);
  }
  return cells;
}

std::vector<std::string> notes_of(std::span<const ElasticRow> rows) {
  std::vector<std::string> notes = {
      "Mean ± standard deviation over seeds; accuracy on the test set after the last epoch. Memory "
      "is the peak of a run less its data, 1 MB = 1e6 bytes: of libtorch's allocator in FP32, of "
      "the arena and the weights in INT8.",
      "frozen: the same layers by backpropagation while all others keep their random (in "
      "fine-tuning their pre-trained) weights: what is left of a gain over zo beside it is what "
      "zeroth order adds.",
      "The ranges in brackets are the abstract's, over its own networks, data and devices."};
  std::size_t untimed = 0;
  for (const ElasticRow& row : rows) untimed += row.timed ? 0 : 1;
  if (untimed > 0)
    notes.push_back(fmt::format(
        "The time of {} run(s) that shared the machine with others is left out.", untimed));
  return notes;
}

}  // namespace

std::string elastic_text(std::span<const ElasticRow> rows) {
  std::string out;
  for (const ElasticGroup& group : elastic_groups(rows)) {
    out += printable(group.title()) + '\n' + aligned_table(cells_of(group));
    for (const std::string& finding : elastic_findings(group)) out += finding + '\n';
    out += '\n';
  }
  for (const std::string& note : notes_of(rows)) out += note + '\n';
  return out;
}

std::string elastic_page(std::span<const ElasticRow> rows) {
  std::string body;
  for (const ElasticGroup& group : elastic_groups(rows))
    body += fmt::format("<section class=\"group\"><h2>{}</h2>{}{}</section>\n",
                        html_escaped(group.title()), html_table(cells_of(group)),
                        html_list(elastic_findings(group)));
  body += "<section class=\"details\">" + html_list(notes_of(rows)) + "</section>\n";
  std::string devices;
  for (const ElasticRow& row : rows)
    if (devices.find(row.device) == devices.npos)
      devices += (devices.empty() ? "" : " · ") + row.device;
  return html_page("ElasticZO: zeroth order, backpropagation and both, in FP32 and in integers",
                   html_escaped(devices), body);
}

void write_elastic_files(const fs::path& folder, std::span<const ElasticRow> rows) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure)
    throw StorageError(text("cannot make the folder ", folder.string(), ": ", failure.message()));
  const std::vector<ElasticRow> all = record_elastic_rows(folder / kResultFile, rows);
  write_atomically(folder / "elasticzo.csv", elastic_rows_csv(all));
  write_atomically(folder / "elasticzo.txt", elastic_text(all));
  write_atomically(folder / "elasticzo.html", elastic_page(all));
}

}  // namespace triaccel
