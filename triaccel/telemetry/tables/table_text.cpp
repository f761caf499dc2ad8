#include "triaccel/telemetry/tables/table_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "triaccel/telemetry/console/progress_text.h"

namespace triaccel {
namespace {

std::string signed_number(double value, int decimals, std::string_view unit) {
  return std::isfinite(value) ? fmt::format("{:+.{}f}{}", value, decimals, unit) : "-";
}

double reduction(double value, double reference) {
  return reference > 0 ? 100 * (1 - value / reference) : std::nan("");
}

TableCells comparison_cells(const TableGroup& group) {
  TableCells cells{.header = {"method", "seeds", "accuracy %", "s/epoch", "reserved MB",
                              "allocated MB", "score", "paper: %", "s/epoch", "MB", "score"}};
  for (const TableLine& line : group.lines) {
    const PaperFigure paper = line.paper.value_or(PaperFigure{});
    cells.rows.push_back({printable(line.label()),
                          line.seeds > 0 ? fmt::format("{}", line.seeds) : "-",
                          spread_cell(line.accuracy, 2),
                          spread_cell(line.seconds_per_epoch, decimals_for(line.seconds_per_epoch)),
                          spread_cell(line.reserved_mb, 1), spread_cell(line.allocated_mb, 1),
                          spread_cell(line.score, decimals_for(line.score)),
                          number_cell(paper.accuracy, 1), number_cell(paper.seconds_per_epoch, 1),
                          number_cell(1000 * paper.gigabytes, 0), number_cell(paper.score, 2)});
  }
  return cells;
}

TableCells ablation_cells(const TableGroup& group) {
  TableCells cells{.header = {"configuration", "seeds", "reserved MB", "less %", "allocated MB",
                              "accuracy %", "s/epoch", "score", "paper: MB", "less %",
                              "by its MB"}};
  const auto standard =
      std::find_if(group.lines.begin(), group.lines.end(),
                   [](const TableLine& line) { return line.configuration == "standard"; });
  for (const TableLine& line : group.lines) {
    const PaperFigure paper = line.paper.value_or(PaperFigure{});
    double ours = std::nan("");
    double theirs = std::nan("");
    if (standard != group.lines.end() && &line != &*standard) {
      ours = reduction(line.reserved_mb.mean, standard->reserved_mb.mean);
      if (standard->paper) theirs = reduction(paper.gigabytes, standard->paper->gigabytes);
    }
    cells.rows.push_back(
        {printable(line.label()), line.seeds > 0 ? fmt::format("{}", line.seeds) : "-",
         spread_cell(line.reserved_mb, 1), number_cell(ours, 1), spread_cell(line.allocated_mb, 1),
         spread_cell(line.accuracy, 2),
         spread_cell(line.seconds_per_epoch, decimals_for(line.seconds_per_epoch)),
         spread_cell(line.score, decimals_for(line.score)), number_cell(1000 * paper.gigabytes, 0),
         number_cell(paper.reduction, 1), number_cell(theirs, 1)});
  }
  return cells;
}

std::string gain_numbers(const Gain& gain) {
  std::string out;
  const auto add = [&](const char* name, const std::string& value) {
    if (value != "-") out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, value);
  };
  add("accuracy", signed_number(gain.accuracy_points, 2, " points"));
  add("time", signed_number(gain.seconds, 1, " %"));
  add("memory", signed_number(gain.memory, 1, " %"));
  add("score", signed_number(gain.score, 1, " %"));
  return out.empty() ? "nothing to compare" : out;
}

}  // namespace

TableCells table_cells(const TableGroup& group, PaperTable table) {
  switch (table) {
    case PaperTable::Table1:
      return comparison_cells(group);
    case PaperTable::Table2:
      return ablation_cells(group);
  }
  return {};
}

std::string gain_text(const TableGain& gain, std::string_view before_paper) {
  std::string out =
      printable(fmt::format("{} over {}: {}", gain.of, gain.over, gain_numbers(gain.ours)));
  if (gain.paper) out += std::string(before_paper) + gain_numbers(*gain.paper);
  return out;
}

std::vector<std::string> table_notes(std::span<const TableGroup> groups, PaperTable table) {
  std::vector<std::string> notes = {
      "Mean ± standard deviation over seeds. Memory is the peak less the resident data set, 1 MB = "
      "1e6 bytes; score = accuracy % / (s/epoch × GB reserved).",
      "The paper's figures are as printed, from its own hardware; it gives no spread."};
  if (table == PaperTable::Table2)
    notes.push_back(
        "The paper's printed reductions do not all follow from its memory column; the last column "
        "does.");
  std::size_t untimed = 0;
  for (const TableGroup& group : groups)
    for (const TableLine& line : group.lines) untimed += line.untimed;
  if (untimed > 0)
    notes.push_back(fmt::format(
        "Time and score of {} run(s) that shared the machine with others are left out.", untimed));
  std::string missing;
  for (const std::string& name : not_run(groups, table))
    missing += (missing.empty() ? "" : ", ") + name;
  if (!missing.empty()) notes.push_back("Not run: " + missing + ".");
  return notes;
}

std::string table_text(std::span<const TableRow> rows, PaperTable table) {
  const std::vector<TableGroup> groups = table_groups(rows, table);
  std::string out;
  for (const TableGroup& group : groups) {
    out += printable(group.title()) + '\n' + aligned_table(table_cells(group, table));
    for (const TableGain& gain : gains_of(group))
      out += gain_text(gain, "\n  in the paper: ") + '\n';
    out += '\n';
  }
  for (const std::string& note : table_notes(groups, table)) out += note + '\n';
  return out;
}

}  // namespace triaccel
