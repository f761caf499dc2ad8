#pragma once

#include <string>
#include <vector>

#include "triaccel/telemetry/report/plot_scale.h"

namespace triaccel {

inline constexpr std::size_t kPlotColors = 7;  // classes c0 to c6 of the report's style
inline constexpr std::size_t kMaxPlotPoints = 600;

struct PlotSeries {
  std::string label = {};
  std::vector<PlotPoint> points = {};  // by rising x; one that is not finite is a gap
  std::size_t color = 0;
  bool faint = false;    // a series in the background of another of the same colour
  bool markers = false;  // few points that each mean something
  bool named = true;     // false: its label shows only under the pointer
};

/// A level across the plot: a budget.
struct PlotLevel {
  std::string label = {};
  double y = 0;
};

/// One point that is pointed out.
struct PlotCallout {
  std::string label = {};
  PlotPoint at = {};
  std::size_t color = 0;
  bool below = false;  // its label; otherwise above, unless a level runs there
};

struct LinePlot {
  std::string title = {};  // for readers that do not see the picture
  std::string x_label = {};
  std::string unit = {};  // of y, behind the top tick: "MiB", "%"
  std::vector<PlotSeries> series = {};
  std::vector<PlotLevel> levels = {};
  std::vector<PlotCallout> callouts = {};
  bool from_zero = false;
};

/// Lines with their names at their right ends instead of a legend.
std::string svg_line_plot(const LinePlot& plot);

struct AreaPlot {
  std::string title = {};
  std::string x_label = {};
  std::vector<std::string> labels = {};  // of the layers, from the bottom up
  std::vector<double> x = {};
  std::vector<std::vector<double>> shares = {};  // [layer][x], each column adding up to 1
};

/// Shares of a whole over time, stacked to 100 %.
std::string svg_area_plot(const AreaPlot& plot);

struct StackedBar {
  std::string label = {};
  std::vector<double> parts = {};  // index = colour
  std::string total_text = {};     // behind the bar
  double limit = 0;                // 0: none; otherwise marked across the bar
};

/// Horizontal bars on one scale.
std::string svg_stacked_bars(const std::vector<StackedBar>& bars, const std::string& title);

}  // namespace triaccel
