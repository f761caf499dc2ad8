#include "triaccel/telemetry/tables/table_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "triaccel/telemetry/report/html_text.h"

namespace triaccel {
namespace {

/// Characters of a UTF-8 text, each of which takes one cell here.
std::size_t cells_wide(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

std::string number_cell(double value, int decimals) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, decimals) : "-";
}

std::string spread_cell(const Spread& spread, int decimals) {
  if (!std::isfinite(spread.deviation)) return number_cell(spread.mean, decimals);
  return fmt::format("{} ± {}", number_cell(spread.mean, decimals),
                     number_cell(spread.deviation, decimals));
}

int decimals_for(const Spread& spread) {
  const double size = std::abs(spread.mean);
  return size >= 100 ? 1 : size >= 1 ? 2 : 4;
}

std::string aligned_table(const TableCells& cells) {
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

std::string html_table(const TableCells& cells) {
  std::string out = "<div class=\"scroll\"><table class=\"runs\"><thead><tr>";
  for (const std::string& name : cells.header)
    out += fmt::format("<th>{}</th>", html_escaped(name));
  out += "</tr></thead><tbody>";
  for (const auto& row : cells.rows) {
    out += fmt::format("<tr><th>{}</th>", html_escaped(row[0]));
    for (std::size_t i = 1; i < row.size(); ++i)
      out += fmt::format("<td>{}</td>", html_escaped(row[i]));
    out += "</tr>";
  }
  return out + "</tbody></table></div>";
}

}  // namespace triaccel
