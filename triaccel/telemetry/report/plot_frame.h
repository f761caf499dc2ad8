#pragma once

#include <string>
#include <string_view>

#include "triaccel/telemetry/report/plot_scale.h"

namespace triaccel {

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
