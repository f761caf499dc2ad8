#pragma once

#include <cstddef>
#include <span>
#include <string>
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

/// Reduces a series sorted by x to at most `most` points (>= 4). Each segment keeps its minimum and
/// maximum, so that spikes stay visible. Non-finite points are kept as gaps.
std::vector<PlotPoint> thinned(std::span<const PlotPoint> points, std::size_t most);

}  // namespace triaccel
