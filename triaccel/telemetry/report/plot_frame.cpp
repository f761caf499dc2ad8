#include "triaccel/telemetry/report/plot_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "triaccel/telemetry/report/html_text.h"

namespace triaccel {
namespace {

std::string open_svg(std::string_view title, std::string_view attributes) {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\"{}>",
                     PlotFrame::kWidth, PlotFrame::kHeight, html_escaped(title), attributes);
}

}  // namespace

PlotFrame::PlotFrame(PlotTicks x, PlotTicks y, double label_width)
    : x_ticks_(std::move(x)),
      y_ticks_(std::move(y)),
      right_(kWidth - std::max(label_width, 14.0)) {}

double PlotFrame::x(double value) const {
  const PlotRange range = x_ticks_.range();
  const double share = std::clamp((value - range.low) / (range.high - range.low), 0.0, 1.0);
  return kLeft + share * (right_ - kLeft);
}

double PlotFrame::y(double value) const {
  const PlotRange range = y_ticks_.range();
  const double share = std::clamp((value - range.low) / (range.high - range.low), 0.0, 1.0);
  return kBottom - share * (kBottom - kTop);
}

std::string PlotFrame::begin(std::string_view title, std::string_view x_label,
                             std::string_view unit) const {
  const PlotRange xs = x_ticks_.range();
  const PlotRange ys = y_ticks_.range();
  // The script uses these to convert coordinates back to values.
  std::string out = open_svg(
      title, fmt::format(" data-x=\"{} {} {} {}\" data-y=\"{} {} {} {}\" data-xlabel=\"{}\" "
                         "data-unit=\"{}\"",
                         xs.low, xs.high, kLeft, right_, ys.low, ys.high, kBottom, kTop,
                         html_escaped(x_label), html_escaped(unit)));
  for (const double value : y_ticks_.values) {
    out +=
        fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", kLeft, y(value), right_);
    std::string label = tick_text(value, y_ticks_.step);
    out += svg_text(kLeft - 8, y(value) + 4, "tick", "end", label);
  }
  if (!unit.empty()) out += svg_text(kLeft, kTop - 9, "tick", "start", unit);
  out += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", kLeft, kBottom, right_);
  for (const double value : x_ticks_.values)
    out += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}v4\"/>", x(value), kBottom) +
           svg_text(x(value), kBottom + 17, "tick", "middle", tick_text(value, x_ticks_.step));
  out += svg_text((kLeft + right_) / 2, kHeight - 5, "tick", "middle", x_label);
  return out;
}

std::string svg_text(double x, double y, std::string_view classes, std::string_view anchor,
                     std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\">{}</text>", x,
                     y, classes, anchor, html_escaped(text));
}

std::string svg_without_data(std::string_view title) {
  return open_svg(title, "") +
         svg_text(PlotFrame::kWidth / 2, PlotFrame::kHeight / 2, "tick", "middle",
                  "no measurements yet") +
         "</svg>";
}

}  // namespace triaccel
