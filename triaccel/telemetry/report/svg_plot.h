#pragma once

#include <string>
#include <vector>

#include "triaccel/telemetry/report/plot_frame.h"

namespace triaccel {

inline constexpr std::size_t kPlotColors = 7;  // classes c0 to c6 of the report's style
inline constexpr std::size_t kMaxPlotPoints = 600;

struct PlotSeries {
  std::string label = {};
  std::vector<PlotPoint> points = {};  // sorted by x; a non-finite point is a gap
  std::size_t color = 0;
  bool faint = false;    // a series in the background of another of the same colour
  bool markers = false;  // draws each point
  bool named = true;     // false: label only in the tooltip
};

/// A horizontal line, such as a budget.
struct PlotLevel {
  std::string label = {};
  double y = 0;
};

/// A labelled point.
struct PlotCallout {
  std::string label = {};
  PlotPoint at = {};
  std::size_t color = 0;
  bool below = false;  // of the label; otherwise above, unless it would cover a level line
};

struct LinePlot {
  std::string title = {};  // alternative text
  std::string x_label = {};
  std::string unit = {};  // of y: "MiB", "%"
  std::vector<PlotSeries> series = {};
  std::vector<PlotLevel> levels = {};
  std::vector<PlotCallout> callouts = {};
  bool from_zero = false;
};

/// Lines labelled at their right ends instead of in a legend.
std::string svg_line_plot(const LinePlot& plot);

struct AreaPlot {
  std::string title = {};
  std::string x_label = {};
  std::vector<std::string> labels = {};  // of the areas, bottom to top
  std::vector<double> x = {};
  std::vector<std::vector<double>> shares = {};  // [area][x]; each column sums to 1
};

/// Shares over time, stacked to 100 %.
std::string svg_area_plot(const AreaPlot& plot);

struct StackedBar {
  std::string label = {};
  std::vector<double> parts = {};  // index = colour
  std::string total_text = {};     // after the bar
  double limit = 0;                // marked on the bar; 0: none
};

/// Horizontal bars on one scale.
std::string svg_stacked_bars(const std::vector<StackedBar>& bars, const std::string& title);

}  // namespace triaccel
