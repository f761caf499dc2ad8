#include "triaccel/telemetry/tables/elastic_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "triaccel/telemetry/console/progress_text.h"

namespace triaccel {
namespace {

auto group_key(const ElasticRow& row) {
  return std::tie(row.model, row.data, row.rotation, row.train_samples, row.epochs);
}

template <typename Value>
Spread spread_over(std::span<const ElasticRow> rows, Value&& value) {
  std::vector<double> values;
  for (const ElasticRow& row : rows) values.push_back(value(row));
  return spread_of(values);
}

ElasticCell cell_of(std::span<const ElasticRow> group, const ElasticLine& line,
                    std::string_view format) {
  std::vector<ElasticRow> rows;
  for (const ElasticRow& row : group)
    if (row.method == line.method && row.bp_layers == line.bp_layers && row.number_format == format)
      rows.push_back(row);
  return {.seeds = rows.size(),
          .accuracy = spread_over(rows, [](const ElasticRow& r) { return r.accuracy; }),
          .before = spread_over(rows, [](const ElasticRow& r) { return r.accuracy_before; }),
          .upright = spread_over(rows, [](const ElasticRow& r) { return r.accuracy_upright; }),
          .megabytes = spread_over(
              rows, [](const ElasticRow& r) { return static_cast<double>(r.peak_bytes) / 1e6; }),
          .seconds_per_epoch = spread_over(rows, [](const ElasticRow& r) {
            return r.timed ? r.seconds_per_epoch : std::nan("");
          })};
}

/// From least to most by backpropagation, the control before what it controls.
int place_of(const ElasticLine& line) {
  if (line.method == "zo") return 0;
  if (line.method == "bp") return 1000;
  return static_cast<int>(2 * line.bp_layers) + (line.method == "frozen" ? 0 : 1);
}

const ElasticLine* find_line(const ElasticGroup& group, std::string_view method,
                             std::int64_t bp_layers = -1) {
  for (const ElasticLine& line : group.lines)
    if (line.method == method && (bp_layers < 0 || line.bp_layers == bp_layers)) return &line;
  return nullptr;
}

double points(const ElasticCell& of, const ElasticCell& over) {
  return of.accuracy.mean - over.accuracy.mean;
}

/// A line of ElasticZO against zeroth order, its control and backpropagation in one number format.
void add_comparisons(std::vector<std::string>& findings, const ElasticGroup& group,
                     const ElasticLine& line, ElasticCell ElasticLine::*format,
                     std::string_view name) {
  const ElasticCell& own = line.*format;
  if (own.seeds == 0) return;
  const std::string who = fmt::format("{} {}", name, line.label());
  if (const ElasticLine* zo = find_line(group, "zo"); zo != nullptr && (zo->*format).seeds > 0)
    findings.push_back(fmt::format(
        "{} over zo: {:+.2f} points (abstract: +5.2 to +9.5), memory {:+.3f} % (abstract: +0.072 "
        "to +1.7)",
        who, points(own, zo->*format),
        100 * (own.megabytes.mean / (zo->*format).megabytes.mean - 1)));
  if (const ElasticLine* frozen = find_line(group, "frozen", line.bp_layers);
      frozen != nullptr && (frozen->*format).seeds > 0)
    findings.push_back(fmt::format("{} over the same layers on frozen features: {:+.2f} points",
                                   who, points(own, frozen->*format)));
  if (const ElasticLine* bp = find_line(group, "bp"); bp != nullptr && (bp->*format).seeds > 0)
    findings.push_back(
        fmt::format("{} against backpropagation: {:+.2f} points", who, points(own, bp->*format)));
}

void add_formats(std::vector<std::string>& findings, const ElasticLine& line) {
  findings.push_back(fmt::format(
      "INT8 against FP32, {}: {:+.2f} points (abstract: none lost), {:.2f} times less memory "
      "(abstract: 1.46 to 1.60)",
      line.label(), points(line.int8, line.fp32),
      line.fp32.megabytes.mean / line.int8.megabytes.mean));
  const double faster = line.fp32.seconds_per_epoch.mean / line.int8.seconds_per_epoch.mean;
  if (std::isfinite(faster))
    findings.back() += fmt::format(", {:.2f} times faster (abstract: 1.38 to 1.42)", faster);
}

void add_won_back(std::vector<std::string>& findings, const ElasticLine& line,
                  const ElasticCell& cell, std::string_view name) {
  const double lost = cell.upright.mean - cell.before.mean;
  if (!(lost > 0)) return;
  findings.push_back(fmt::format(
      "{} {}: the turn took {:.2f} points ({:.2f} to {:.2f} %), {:.0f} % of which came back", name,
      line.label(), lost, cell.upright.mean, cell.before.mean,
      100 * (cell.accuracy.mean - cell.before.mean) / lost));
}

}  // namespace

std::string ElasticLine::label() const {
  if (method == "zo" || method == "bp") return method;
  return fmt::format("{}, {} BP layer{}", method, bp_layers, bp_layers == 1 ? "" : "s");
}

std::string ElasticGroup::title() const {
  std::string out = fmt::format("{} on {}", model, data);
  if (rotation != 0) out += fmt::format(" turned by {:g}° (fine-tuning)", rotation);
  if (train_samples > 0) out += fmt::format(", {} training samples", train_samples);
  return out + fmt::format(", {:g} epochs", epochs);
}

std::vector<ElasticGroup> elastic_groups(std::span<const ElasticRow> rows) {
  std::vector<ElasticGroup> groups;
  std::vector<std::vector<ElasticRow>> members;
  for (const ElasticRow& row : rows) {
    std::size_t at = 0;
    while (at < members.size() && group_key(members[at].front()) != group_key(row)) ++at;
    if (at == members.size()) {
      groups.push_back({row.model, row.data, row.rotation, row.train_samples, row.epochs});
      members.emplace_back();
    }
    members[at].push_back(row);
    if (find_line(groups[at], row.method, row.bp_layers) == nullptr)
      groups[at].lines.push_back({.method = row.method, .bp_layers = row.bp_layers});
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    std::ranges::stable_sort(groups[i].lines, {}, place_of);
    for (ElasticLine& line : groups[i].lines) {
      line.fp32 = cell_of(members[i], line, "fp32");
      line.int8 = cell_of(members[i], line, "int8");
    }
  }
  return groups;
}

std::vector<std::string> elastic_findings(const ElasticGroup& group) {
  std::vector<std::string> findings;
  for (const ElasticLine& line : group.lines) {
    if (line.method == "elasticzo") {
      add_comparisons(findings, group, line, &ElasticLine::fp32, "FP32");
      add_comparisons(findings, group, line, &ElasticLine::int8, "INT8");
    }
    if (line.fp32.seeds > 0 && line.int8.seeds > 0) add_formats(findings, line);
    add_won_back(findings, line, line.fp32, "FP32");
    add_won_back(findings, line, line.int8, "INT8");
  }
  for (std::string& finding : findings) finding = printable(finding);
  return findings;
}

}  // namespace triaccel
