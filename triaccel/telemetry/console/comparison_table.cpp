#include "triaccel/telemetry/console/comparison_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "triaccel/base/byte_size.h"
#include "triaccel/telemetry/console/progress_text.h"
#include "triaccel/telemetry/records/summary.h"

namespace triaccel {
namespace {

constexpr std::size_t kColumns = 9;
using Cells = std::array<std::string, kColumns>;

constexpr std::array<const char*, kColumns> kHeader = {
    "method", "accuracy", "time", "samples/s", "speed", "peak memory", "budget", "memory", "score"};

std::string ratio(double value, double reference) {
  return value > 0 && reference > 0 ? fmt::format("{:.2f}x", value / reference) : "-";
}

Cells cells_of(const RunSummary& run, const RunSummary& first) {
  return {printable(run.method),
          std::isfinite(run.accuracy) ? fmt::format("{:.2f} %", run.accuracy) : "-",
          fmt::format("{:.1f} s", run.seconds),
          fmt::format("{:.0f}", samples_per_second(run)),
          ratio(samples_per_second(run), samples_per_second(first)),
          run.peak_bytes > 0 ? byte_text(run.peak_bytes) : "-",
          run.budget_bytes > 0 ? byte_text(run.budget_bytes) : "none",
          ratio(static_cast<double>(run.peak_bytes), static_cast<double>(first.peak_bytes)),
          run.score > 0 ? fmt::format("{:.2f}", run.score) : "-"};
}

}  // namespace

std::string comparison_table(std::span<const ComparisonRow> rows) {
  const RunSummary* first = nullptr;
  for (const ComparisonRow& row : rows)
    if (first == nullptr && row.skipped.empty()) first = &row.summary;

  std::array<std::size_t, kColumns> widths{};
  for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::string_view(kHeader[i]).size();
  std::vector<Cells> body;
  for (const ComparisonRow& row : rows) {
    body.push_back(row.skipped.empty() ? cells_of(row.summary, *first)
                                       : Cells{printable(row.summary.method)});
    for (std::size_t i = 0; i < kColumns; ++i)
      widths[i] = std::max(widths[i], body.back()[i].size());
  }

  // Names to the left, numbers to the right.
  std::string out = fmt::format("{:<{}}", kHeader[0], widths[0]);
  for (std::size_t i = 1; i < kColumns; ++i) out += fmt::format("  {:>{}}", kHeader[i], widths[i]);
  const std::size_t width = out.size();
  out += '\n' + std::string(width, '-') + '\n';
  for (std::size_t r = 0; r < rows.size(); ++r) {
    out += fmt::format("{:<{}}", body[r][0], widths[0]);
    if (!rows[r].skipped.empty()) {
      out += "  skipped: " + printable(rows[r].skipped) + '\n';
      continue;
    }
    for (std::size_t i = 1; i < kColumns; ++i)
      out += fmt::format("  {:>{}}", body[r][i], widths[i]);
    out += '\n';
  }
  return out;
}

}  // namespace triaccel
