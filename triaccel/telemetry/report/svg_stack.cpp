#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "triaccel/telemetry/report/html_text.h"
#include "triaccel/telemetry/report/plot_frame.h"
#include "triaccel/telemetry/report/svg_plot.h"

namespace triaccel {
namespace {

/// Columns to draw, evenly sampled if there are too many.
std::vector<std::size_t> picked_columns(const AreaPlot& plot) {
  std::vector<std::size_t> columns;
  const std::size_t count = plot.x.size();
  const std::size_t most = std::min(count, kMaxPlotPoints);
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t column = most < 2 ? 0 : i * (count - 1) / (most - 1);
    if (std::isfinite(plot.x[column])) columns.push_back(column);
  }
  return columns;
}

}  // namespace

std::string svg_area_plot(const AreaPlot& plot) {
  const std::vector<std::size_t> columns = picked_columns(plot);
  if (columns.empty()) return svg_without_data(plot.title);
  PlotRange xs;
  xs.include(0);
  for (const std::size_t column : columns) xs.include(plot.x[column]);
  const PlotFrame frame(round_ticks(xs, 6), round_ticks({0, 100}, 5), 60);
  std::string out = frame.begin(plot.title, plot.x_label, "% of layers");

  std::vector<double> below(columns.size(), 0);
  for (std::size_t layer = 0; layer < plot.labels.size(); ++layer) {
    std::vector<double> above = below;
    for (std::size_t i = 0; i < columns.size(); ++i)
      above[i] += 100 * plot.shares[layer][columns[i]];
    if (above == below) continue;
    // A plan applies since the previous record: a step function from the start of the axis.
    std::string path = fmt::format("M{:.1f} {:.1f}", PlotFrame::kLeft, frame.y(below[0]));
    double x = PlotFrame::kLeft;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const double next = frame.x(plot.x[columns[i]]);
      path += fmt::format("L{:.1f} {:.1f}L{:.1f} {:.1f}", x, frame.y(above[i]), next,
                          frame.y(above[i]));
      x = next;
    }
    for (std::size_t i = columns.size(); i-- > 0;) {
      const double previous = i > 0 ? frame.x(plot.x[columns[i - 1]]) : PlotFrame::kLeft;
      path += fmt::format("L{:.1f} {:.1f}L{:.1f} {:.1f}", x, frame.y(below[i]), previous,
                          frame.y(below[i]));
      x = previous;
    }
    out += fmt::format("<path class=\"area c{}\" d=\"{}Z\"/>", layer % kPlotColors, path);
    if (above.back() - below.back() >= 6)
      out += svg_text(frame.right() + 8, frame.y((above.back() + below.back()) / 2) + 4,
                      fmt::format("name c{}", layer % kPlotColors), "start", plot.labels[layer]);
    below = std::move(above);
  }
  return out + "</svg>";
}

std::string svg_stacked_bars(const std::vector<StackedBar>& bars, const std::string& title) {
  constexpr double kWidth = 1140;
  constexpr double kRow = 34;
  constexpr double kBar = 20;
  constexpr double kNameWidth = 120;
  constexpr double kTotalWidth = 180;
  double largest = 0;
  for (const StackedBar& bar : bars) {
    const double total = std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0);
    largest = std::max({largest, total, bar.limit});
  }
  if (!(largest > 0)) return svg_without_data(title);
  const double height = kRow * static_cast<double>(bars.size()) + 4;
  const double scale = (kWidth - kNameWidth - kTotalWidth) / largest;
  std::string out = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">",
                                kWidth, height, html_escaped(title));
  for (std::size_t row = 0; row < bars.size(); ++row) {
    const StackedBar& bar = bars[row];
    const double top = kRow * static_cast<double>(row) + (kRow - kBar) / 2;
    out += svg_text(0, top + 15, "label", "start", shortened(bar.label, 16));
    if (bar.limit > 0)
      out += fmt::format(
          "<rect class=\"room\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/>",
          kNameWidth, top, bar.limit * scale, kBar);
    double x = kNameWidth;
    for (std::size_t part = 0; part < bar.parts.size(); ++part) {
      const double width = std::max(bar.parts[part], 0.0) * scale;
      if (!(width > 0)) continue;
      out += fmt::format(
          "<rect class=\"part c{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/>",
          part % kPlotColors, x, top, width, kBar);
      x += width;
    }
    if (bar.limit > 0) {
      const double at = kNameWidth + bar.limit * scale;
      out += fmt::format("<path class=\"limit\" d=\"M{:.1f} {:.1f}v{}\"/>", at, top - 4, kBar + 8);
      x = std::max(x, at);
    }
    out += svg_text(x + 10, top + 15, "label", "start", bar.total_text);
  }
  return out + "</svg>";
}

}  // namespace triaccel
