#include "triaccel/telemetry/report/plot_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "triaccel/telemetry/report/html_text.h"

namespace triaccel {
namespace {

// Larger values would overflow in tick and coordinate computations.
constexpr double kLargest = 1e100;

/// The smallest 1, 2 or 5 times a power of ten that is >= `value`.
double round_step(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= value * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

std::string open_svg(std::string_view title, std::string_view attributes) {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\"{}>",
                     PlotFrame::kWidth, PlotFrame::kHeight, html_escaped(title), attributes);
}

}  // namespace

bool drawable(const PlotPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

void PlotRange::include(double value) {
  if (!std::isfinite(value)) return;
  value = std::clamp(value, -kLargest, kLargest);
  if (empty()) {
    low = high = value;
    return;
  }
  low = std::min(low, value);
  high = std::max(high, value);
}

PlotTicks round_ticks(PlotRange data, int most) {
  if (data.empty()) data = {0, 1};
  // A constant series gets a margin; the width must be representable in double precision.
  const double smallest =
      std::max(std::max(std::abs(data.low), std::abs(data.high)) * 1e-9, 1e-100);
  if (data.high - data.low < smallest) {
    const double margin = data.high == 0 ? 1 : std::abs(data.high) * 0.5;
    data = data.low >= 0 ? PlotRange{std::max(data.low - margin, 0.0), data.high + margin}
                         : PlotRange{data.low - margin, data.high + margin};
  }
  PlotTicks ticks;
  ticks.step = round_step((data.high - data.low) / std::max(most, 1));
  const double first = std::floor(data.low / ticks.step + 1e-9);
  const double last = std::ceil(data.high / ticks.step - 1e-9);
  const auto count = static_cast<int>(last - first);
  for (int i = 0; i <= count; ++i) ticks.values.push_back((first + i) * ticks.step);
  return ticks;
}

std::string tick_text(double value, double step) {
  if (std::abs(value) < step * 1e-6) return "0";
  const double size = std::abs(value);
  if (size >= 1e6 || size < 1e-3) return fmt::format("{:.3g}", value);
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  return fmt::format("{:.{}f}", value, decimals);
}

std::vector<std::size_t> picked_columns(std::size_t count, std::size_t most) {
  most = std::min(count, most);
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < most; ++i)
    columns.push_back(most < 2 ? 0 : i * (count - 1) / (most - 1));
  return columns;
}

std::vector<PlotPoint> thinned(std::span<const PlotPoint> points, std::size_t most) {
  if (points.size() <= most) return {points.begin(), points.end()};
  const std::size_t stretches = (most - 2) / 2;
  const std::span<const PlotPoint> inner = points.subspan(1, points.size() - 2);
  std::vector<PlotPoint> kept = {points.front()};
  for (std::size_t s = 0; s < stretches; ++s) {
    const std::size_t begin = s * inner.size() / stretches;
    const std::size_t end = (s + 1) * inner.size() / stretches;
    if (begin == end) continue;
    std::size_t low = begin;
    std::size_t high = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (!drawable(inner[i])) continue;
      if (!drawable(inner[low]) || inner[i].y < inner[low].y) low = i;
      if (!drawable(inner[high]) || inner[i].y > inner[high].y) high = i;
    }
    kept.push_back(inner[std::min(low, high)]);
    if (low != high) kept.push_back(inner[std::max(low, high)]);
  }
  kept.push_back(points.back());
  return kept;
}

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
