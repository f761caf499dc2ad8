#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace triaccel {

struct PlotPoint {
  double x = 0;
  double y = 0;
};
/// Whether both are finite.
bool drawable(const PlotPoint& point);

/// A range of values along one axis; empty while low > high.
struct PlotRange {
  double low = 1;
  double high = 0;
  bool empty() const { return low > high; }
  /// Extends the range to include `value`; non-finite values are ignored.
  void include(double value);
};

/// Ticks of one axis: multiples of 1, 2 or 5 times a power of ten that enclose the data; between 2
/// and `most` + 2 of them.
struct PlotTicks {
  std::vector<double> values = {};
  double step = 1;
  PlotRange range() const { return {values.front(), values.back()}; }
};
PlotTicks round_ticks(PlotRange data, int most = 5);

/// The label of a tick, with the digits its step needs.
std::string tick_text(double value, double step);

/// The indices of `most` of `count` columns, evenly spaced; all if there are no more.
std::vector<std::size_t> picked_columns(std::size_t count, std::size_t most);

/// Reduces a series sorted by x to at most `most` points (>= 4). Each segment keeps its minimum and
/// maximum, so that spikes stay visible. Non-finite points are kept as gaps.
std::vector<PlotPoint> thinned(std::span<const PlotPoint> points, std::size_t most);

/// Maps values to a drawing of fixed size and draws grid, ticks and units.
class PlotFrame {
 public:
  static constexpr double kWidth = 560;
  static constexpr double kHeight = 250;
  static constexpr double kTop = 22;
  static constexpr double kBottom = kHeight - 38;
  static constexpr double kLeft = 52;

  /// `label_width`: space for text to the right of the plot.
  PlotFrame(PlotTicks x, PlotTicks y, double label_width);

  double right() const { return right_; }
  double x(double value) const;  // clamped to the frame
  double y(double value) const;

  /// Opens the svg element and draws grid and axes.
  std::string begin(std::string_view title, std::string_view x_label, std::string_view unit) const;

 private:
  PlotTicks x_ticks_;
  PlotTicks y_ticks_;
  double right_;
};

/// A text element; `anchor` is start, middle or end.
std::string svg_text(double x, double y, std::string_view classes, std::string_view anchor,
                     std::string_view text);

/// Placeholder for a plot without data.
std::string svg_without_data(std::string_view title);

}  // namespace triaccel
