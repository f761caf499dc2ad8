#include "triaccel/telemetry/report/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "triaccel/telemetry/report/html_text.h"
#include "triaccel/telemetry/report/plot_frame.h"

namespace triaccel {
namespace {

constexpr std::size_t kLabelCharacters = 16;
constexpr double kCharacterWidth = 6.6;  // of the label font, on average
constexpr double kLabelHeight = 14;

std::size_t color_of(std::size_t index) { return index % kPlotColors; }

/// The label at the right end of a line.
struct EndLabel {
  std::string text = {};
  std::string classes = {};
  double y = 0;
};

/// Separates overlapping labels, keeping their order, inside the frame.
void spread(std::vector<EndLabel>& labels) {
  std::sort(labels.begin(), labels.end(),
            [](const EndLabel& a, const EndLabel& b) { return a.y < b.y; });
  for (std::size_t i = 1; i < labels.size(); ++i)
    labels[i].y = std::max(labels[i].y, labels[i - 1].y + kLabelHeight);
  if (labels.empty()) return;
  double lowest = PlotFrame::kBottom;
  for (std::size_t i = labels.size(); i-- > 0; lowest = labels[i].y - kLabelHeight)
    labels[i].y = std::min(labels[i].y, lowest);
}

std::string path_of(const std::vector<PlotPoint>& points, const PlotFrame& frame) {
  std::string path;
  bool down = false;
  for (const PlotPoint& point : points) {
    if (drawable(point))
      path += fmt::format("{}{:.1f} {:.1f}", down ? "L" : "M", frame.x(point.x), frame.y(point.y));
    down = drawable(point);
  }
  return path;
}

std::string draw_series(const PlotSeries& series, const PlotFrame& frame) {
  const std::vector<PlotPoint> points = thinned(series.points, kMaxPlotPoints);
  const std::string path = path_of(points, frame);
  if (path.empty()) return "";
  const std::string classes =
      fmt::format("c{}{}", color_of(series.color), series.faint ? " faint" : "");
  std::string out = fmt::format("<path class=\"line {}\" data-name=\"{}\" d=\"{}\"/>", classes,
                                html_escaped(series.label), path);
  constexpr std::size_t kMostMarkers = 60;
  const auto count = std::count_if(points.begin(), points.end(), drawable);
  if ((series.markers && points.size() <= kMostMarkers) || count == 1)
    for (const PlotPoint& point : points)
      if (drawable(point))
        out += fmt::format("<circle class=\"dot {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>",
                           classes, frame.x(point.x), frame.y(point.y));
  return out;
}

std::vector<EndLabel> end_labels(const LinePlot& plot, const PlotFrame& frame) {
  std::vector<EndLabel> labels;
  for (const PlotSeries& series : plot.series) {
    const auto last = std::find_if(series.points.rbegin(), series.points.rend(), drawable);
    if (!series.named || series.label.empty() || last == series.points.rend()) continue;
    labels.push_back({shortened(series.label, kLabelCharacters),
                      fmt::format("name c{}", color_of(series.color)), frame.y(last->y)});
  }
  for (const PlotLevel& level : plot.levels)
    labels.push_back({shortened(level.label, kLabelCharacters), "name level", frame.y(level.y)});
  return labels;
}

double label_width(const LinePlot& plot) {
  std::size_t longest = 0;
  for (const PlotSeries& series : plot.series)
    if (series.named) longest = std::max(longest, series.label.size());
  for (const PlotLevel& level : plot.levels) longest = std::max(longest, level.label.size());
  if (longest == 0) return 0;
  return 14 + kCharacterWidth * static_cast<double>(std::min(longest, kLabelCharacters));
}

std::string draw_callout(const PlotCallout& callout, const LinePlot& plot, const PlotFrame& frame) {
  const double x = frame.x(callout.at.x);
  const double y = frame.y(callout.at.y);
  const double width = kCharacterWidth * static_cast<double>(callout.label.size());
  // Right of its point unless it would leave the frame.
  const bool to_left = x + width + 6 > frame.right();
  // Above its point unless it would cover a level line.
  const bool below =
      callout.below || std::any_of(plot.levels.begin(), plot.levels.end(), [&](const auto& level) {
        const double gap = y - frame.y(level.y);
        return gap >= -4 && gap < 2 * kLabelHeight;
      });
  return fmt::format("<circle class=\"dot c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>",
                     color_of(callout.color), x, y) +
         svg_text(to_left ? x - 2 : x + 2, below ? y + 20 : y - 8,
                  fmt::format("name c{}", color_of(callout.color)), to_left ? "end" : "start",
                  callout.label);
}

}  // namespace

std::string svg_line_plot(const LinePlot& plot) {
  PlotRange xs;
  PlotRange ys;
  for (const PlotSeries& series : plot.series)
    for (const PlotPoint& point : series.points)
      if (drawable(point)) {
        xs.include(point.x);
        ys.include(point.y);
      }
  if (xs.empty()) return svg_without_data(plot.title);
  xs.include(0);
  if (plot.from_zero) ys.include(0);
  for (const PlotLevel& level : plot.levels) ys.include(level.y);

  PlotTicks x_ticks = round_ticks(xs, 6);
  const PlotFrame frame(x_ticks, round_ticks(ys, 5), label_width(plot));
  std::string out = frame.begin(plot.title, plot.x_label, plot.unit);
  for (const PlotLevel& level : plot.levels)
    out += fmt::format("<path class=\"level\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", PlotFrame::kLeft,
                       frame.y(level.y), frame.right());
  for (const bool faint : {true, false})
    for (const PlotSeries& series : plot.series)
      if (series.faint == faint) out += draw_series(series, frame);
  for (const PlotCallout& callout : plot.callouts)
    if (drawable(callout.at)) out += draw_callout(callout, plot, frame);
  std::vector<EndLabel> labels = end_labels(plot, frame);
  spread(labels);
  for (const EndLabel& label : labels)
    out += svg_text(frame.right() + 8, label.y + 4, label.classes, "start", label.text);
  return out + "</svg>";
}

std::string svg_area_plot(const AreaPlot& plot) {
  std::vector<std::size_t> columns = picked_columns(plot.x.size(), kMaxPlotPoints);
  std::erase_if(columns, [&](std::size_t column) { return !std::isfinite(plot.x[column]); });
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
