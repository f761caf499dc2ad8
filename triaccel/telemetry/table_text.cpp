#include "triaccel/telemetry/table_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "triaccel/telemetry/progress_text.h"

namespace triaccel {
namespace {

std::string number(double value, int decimals) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, decimals) : "-";
}

std::string spread_text(const Spread& spread, int decimals) {
  if (!std::isfinite(spread.deviation)) return number(spread.mean, decimals);
  return fmt::format("{} ± {}", number(spread.mean, decimals), number(spread.deviation, decimals));
}

/// Enough digits for three figures that count, whatever machine it ran on.
int decimals_for(const Spread& spread) {
  const double size = std::abs(spread.mean);
  return size >= 100 ? 1 : size >= 1 ? 2 : 4;
}

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
                          spread_text(line.accuracy, 2),
                          spread_text(line.seconds_per_epoch, decimals_for(line.seconds_per_epoch)),
                          spread_text(line.reserved_mb, 1), spread_text(line.allocated_mb, 1),
                          spread_text(line.score, decimals_for(line.score)),
                          number(paper.accuracy, 1), number(paper.seconds_per_epoch, 1),
                          number(1000 * paper.gigabytes, 0), number(paper.score, 2)});
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
         spread_text(line.reserved_mb, 1), number(ours, 1), spread_text(line.allocated_mb, 1),
         spread_text(line.accuracy, 2),
         spread_text(line.seconds_per_epoch, decimals_for(line.seconds_per_epoch)),
         spread_text(line.score, decimals_for(line.score)), number(1000 * paper.gigabytes, 0),
         number(paper.reduction, 1), number(theirs, 1)});
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

/// Characters of a UTF-8 text, each of which takes one cell here.
std::size_t cells_wide(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

/// Names to the left, numbers to the right.
std::string aligned(const TableCells& cells) {
  std::vector<std::size_t> widths;
  for (const std::string& name : cells.header) widths.push_back(cells_wide(name));
  for (const auto& row : cells.rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], cells_wide(row[i]));
  const auto line = [&](const std::vector<std::string>& row) {
    std::string out = row[0] + std::string(widths[0] - cells_wide(row[0]), ' ');
    for (std::size_t i = 1; i < row.size(); ++i)
      out += std::string(2 + widths[i] - cells_wide(row[i]), ' ') + row[i];
    return out;
  };
  std::string out = line(cells.header) + '\n' + std::string(cells_wide(line(cells.header)), '-');
  for (const auto& row : cells.rows) out += '\n' + line(row);
  return out + '\n';
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
    out += printable(group.title()) + '\n' + aligned(table_cells(group, table));
    for (const TableGain& gain : gains_of(group))
      out += gain_text(gain, "\n  in the paper: ") + '\n';
    out += '\n';
  }
  for (const std::string& note : table_notes(groups, table)) out += note + '\n';
  return out;
}

}  // namespace triaccel
