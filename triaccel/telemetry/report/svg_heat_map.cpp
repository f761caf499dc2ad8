#include "triaccel/telemetry/report/svg_heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "triaccel/telemetry/report/html_text.h"
#include "triaccel/telemetry/report/plot_frame.h"

namespace triaccel {
namespace {

constexpr std::size_t kMostColumns = 240;
constexpr double kShownShare = 1e-6;  // of the largest value
constexpr double kSmallest = 1e-200;  // smaller values count as zero

bool positive(double value) { return std::isfinite(value) && value > kSmallest; }

/// Layout of the drawing, in pixels.
struct HeatLayout {
  double width = 0;
  double left = 0;  // of the cells
  double right = 0;
  double row = 0;      // height
  bool small = false;  // many rows: smaller font
  double bottom = 0;
  PlotRange range = {};  // of the columns; they fill the width

  double x(double value) const {
    return left + (value - range.low) / (range.high - range.low) * (right - left);
  }
};

std::size_t most_characters(const HeatMap& map) { return map.wide ? 30 : 24; }

/// Truncates the front of a long name: the end is what distinguishes layers.
std::string cut_front(const std::string& name, std::size_t most) {
  if (name.size() <= most) return name;
  std::size_t begin = name.size() - most + 1;
  while (begin < name.size() && (static_cast<unsigned char>(name[begin]) & 0xC0) == 0x80) ++begin;
  return "…" + name.substr(begin);
}

HeatLayout layout_of(const HeatMap& map) {
  HeatLayout layout{.width = map.wide ? 1140.0 : PlotFrame::kWidth};
  layout.small = map.rows.size() > 30;
  layout.row = layout.small ? 12 : 17;
  std::size_t longest = 0;
  for (const HeatRow& row : map.rows) longest = std::max(longest, row.name.size());
  const double character = layout.small ? 5.6 : 6.4;
  layout.left = 12 + character * static_cast<double>(std::min(longest, most_characters(map)));
  layout.right = layout.width - 14;
  layout.bottom = 4 + layout.row * static_cast<double>(map.rows.size());
  layout.range = {map.edges.front(), map.edges.back()};
  return layout;
}

/// The cells of one row: one path per shade, adjacent cells of the same shade merged.
std::string draw_row(const HeatMap& map, const HeatRow& row,
                     const std::vector<std::size_t>& columns, double top,
                     const HeatLayout& layout) {
  std::map<int, std::string> paths;
  const auto edge = [&](std::size_t i) {
    return layout.x(map.edges[i < columns.size() ? columns[i] : map.edges.size() - 1]);
  };
  for (std::size_t i = 0; i < columns.size();) {
    std::size_t end = i + 1;
    while (end < columns.size() && row.shades[columns[end]] == row.shades[columns[i]]) ++end;
    if (const int shade = row.shades[columns[i]]; shade >= 0)
      paths[shade] += fmt::format("M{:.1f} {:.1f}H{:.1f}v{:.1f}H{:.1f}z", edge(i), top, edge(end),
                                  layout.row - 1, edge(i));
    i = end;
  }
  std::string out;
  for (const auto& [shade, path] : paths)
    out += fmt::format("<path class=\"cell {}{}\" d=\"{}\"/>", map.shade_class, shade, path);
  return out;
}

}  // namespace

std::string svg_heat_map(const HeatMap& map) {
  const bool drawable = map.edges.size() > 1 && map.edges.back() > map.edges.front() &&
                        std::all_of(map.edges.begin(), map.edges.end(),
                                    [](double edge) { return std::isfinite(edge); });
  if (map.rows.empty() || !drawable) return svg_without_data(map.title);
  const HeatLayout layout = layout_of(map);
  const std::vector<std::size_t> columns = picked_columns(map.edges.size() - 1, kMostColumns);
  std::string out = fmt::format(
      "<svg class=\"heat\" viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\">",
      layout.width, layout.bottom + 38, html_escaped(map.title));
  out +=
      fmt::format("<rect class=\"room\" x=\"{:.1f}\" y=\"4\" width=\"{:.1f}\" height=\"{:.1f}\"/>",
                  layout.left, layout.right - layout.left, layout.bottom - 5);
  const std::string text_class = layout.small ? "tick small" : "tick";
  for (std::size_t r = 0; r < map.rows.size(); ++r) {
    const HeatRow& row = map.rows[r];
    const double top = 4 + layout.row * static_cast<double>(r);
    out += "<g>";
    if (!row.remark.empty())
      out += fmt::format("<title>{}</title>", html_escaped(row.name + ": " + row.remark));
    out += svg_text(layout.left - 8, top + layout.row / 2 + 3.5, text_class, "end",
                    cut_front(row.name, most_characters(map)));
    out += draw_row(map, row, columns, top, layout) + "</g>";
  }
  const PlotTicks ticks = round_ticks(layout.range, map.wide ? 10 : 6);
  for (const double value : ticks.values) {
    if (value < layout.range.low || value > layout.range.high) continue;
    out += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}v4\"/>", layout.x(value),
                       layout.bottom) +
           svg_text(layout.x(value), layout.bottom + 17, "tick", "middle",
                    tick_text(value, ticks.step));
  }
  out +=
      svg_text((layout.left + layout.right) / 2, layout.bottom + 33, "tick", "middle", map.x_label);
  return out + "</svg>";
}

LogShades::LogShades(const std::vector<double>& values) {
  for (const double value : values)
    if (positive(value)) high_ = std::max(high_, value);
  low_ = high_;
  for (const double value : values)
    if (positive(value)) low_ = std::min(low_, value);
  low_ = std::max(low_, high_ * kShownShare);
}

int LogShades::shade(double value) const {
  if (empty() || !positive(value)) return -1;
  if (!(high_ > low_)) return kHeatShades - 1;
  const double share = std::log(std::max(value, low_) / low_) / std::log(high_ / low_);
  return std::clamp(static_cast<int>(share * kHeatShades), 0, kHeatShades - 1);
}

}  // namespace triaccel
