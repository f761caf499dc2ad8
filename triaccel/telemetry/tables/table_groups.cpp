#include "triaccel/telemetry/tables/table_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace triaccel {
namespace {

template <typename Value>
Spread spread_over(std::span<const TableRow> rows, Value&& value) {
  std::vector<double> values;
  for (const TableRow& row : rows) values.push_back(value(row));
  return spread_of(values);
}

TableLine line_of(std::span<const TableRow> rows) {
  const double nothing = std::nan("");
  TableLine line{.seeds = rows.size()};
  for (const TableRow& row : rows) line.untimed += row.timed ? 0 : 1;
  line.accuracy = spread_over(rows, [](const TableRow& r) { return r.accuracy; });
  line.allocated_mb = spread_over(rows, [](const TableRow& r) { return r.peak_allocated_mb; });
  line.reserved_mb = spread_over(rows, [](const TableRow& r) { return r.peak_reserved_mb; });
  line.seconds_per_epoch =
      spread_over(rows, [&](const TableRow& r) { return r.timed ? r.seconds_per_epoch : nothing; });
  line.score = spread_over(rows, [&](const TableRow& r) { return r.timed ? r.score : nothing; });
  return line;
}

bool belongs(const TableRow& row, const TableGroup& group) {
  return row.model == group.model && row.stem == group.stem && row.data == group.data &&
         row.epochs == group.epochs;
}

double percent(double value, double reference) {
  return reference > 0 ? 100 * (value / reference - 1) : std::nan("");
}

Gain gain_of(const TableLine& of, const TableLine& over) {
  return {of.accuracy.mean - over.accuracy.mean,
          percent(of.seconds_per_epoch.mean, over.seconds_per_epoch.mean),
          percent(of.reserved_mb.mean, over.reserved_mb.mean),
          percent(of.score.mean, over.score.mean)};
}

Gain gain_of(const PaperFigure& of, const PaperFigure& over) {
  return {of.accuracy - over.accuracy, percent(of.seconds_per_epoch, over.seconds_per_epoch),
          percent(of.gigabytes, over.gigabytes), percent(of.score, over.score)};
}

bool is_baseline(const TableLine& line) {
  return line.configuration.empty() ? line.method == "fp32" || line.method == "amp"
                                    : line.configuration == "standard";
}

}  // namespace

std::string TableGroup::title() const {
  return fmt::format("{}{} on {}, {:g} epochs", model,
                     stem.empty() ? "" : fmt::format(" ({} stem)", stem), data, epochs);
}

std::vector<TableGroup> table_groups(std::span<const TableRow> rows, PaperTable table) {
  std::vector<TableGroup> groups;
  for (const TableRow& row : rows) {
    const bool known = std::any_of(groups.begin(), groups.end(),
                                   [&](const TableGroup& group) { return belongs(row, group); });
    if (row.table == table && !known)
      groups.push_back(
          {.model = row.model, .stem = row.stem, .data = row.data, .epochs = row.epochs});
  }
  for (TableGroup& group : groups) {
    for (const PaperFigure& figure : paper_figures(table))
      if (figure.model == group.model && figure.data == group.data)
        group.lines.push_back({.method = std::string(figure.method),
                               .configuration = std::string(figure.configuration),
                               .paper = figure});
    for (const TableRow& row : rows) {
      const auto same = [&](const TableLine& line) {
        return line.method == row.method && line.configuration == row.configuration;
      };
      if (row.table == table && belongs(row, group) &&
          std::none_of(group.lines.begin(), group.lines.end(), same))
        group.lines.push_back({.method = row.method, .configuration = row.configuration});
    }
    for (TableLine& line : group.lines) {
      std::vector<TableRow> own;
      for (const TableRow& row : rows)
        if (row.table == table && belongs(row, group) && row.method == line.method &&
            row.configuration == line.configuration)
          own.push_back(row);
      TableLine measured = line_of(own);
      measured.method = std::move(line.method);
      measured.configuration = std::move(line.configuration);
      measured.paper = line.paper;
      line = std::move(measured);
    }
  }
  return groups;
}

std::vector<std::string> not_run(std::span<const TableGroup> groups, PaperTable table) {
  std::vector<std::string> missing;
  for (const PaperFigure& figure : paper_figures(table)) {
    const bool run = std::any_of(groups.begin(), groups.end(), [&](const TableGroup& group) {
      return group.model == figure.model && group.data == figure.data;
    });
    const std::string name = fmt::format("{} on {}", figure.model, figure.data);
    if (!run && std::find(missing.begin(), missing.end(), name) == missing.end())
      missing.push_back(name);
  }
  return missing;
}

std::vector<TableGain> gains_of(const TableGroup& group) {
  std::vector<TableGain> gains;
  for (const TableLine& of : group.lines)
    for (const TableLine& over : group.lines) {
      if (is_baseline(of) || !is_baseline(over) || of.seeds == 0 || over.seeds == 0) continue;
      TableGain gain{.of = of.label(), .over = over.label(), .ours = gain_of(of, over)};
      if (of.paper && over.paper) gain.paper = gain_of(*of.paper, *over.paper);
      gains.push_back(std::move(gain));
    }
  return gains;
}

}  // namespace triaccel
