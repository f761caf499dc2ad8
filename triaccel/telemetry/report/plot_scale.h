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
  /// Widens the range to hold `value`; what is not finite is passed over.
  void include(double value);
};

/// Ticks of one axis: first and last enclose the data, all are multiples of 1, 2 or 5 times a power
/// of ten, and there are between 2 and `most` + 2 of them.
struct PlotTicks {
  std::vector<double> values = {};
  double step = 1;
  PlotRange range() const { return {values.front(), values.back()}; }
};
PlotTicks round_ticks(PlotRange data, int most = 5);

/// The label of a tick, with just the digits its step needs.
std::string tick_text(double value, double step);

/// At most `most` points (>= 4) of a series sorted by x. Each stretch keeps its lowest and highest
/// point, so that a spike stays to be seen. Points that are not finite are kept as gaps.
std::vector<PlotPoint> thinned(std::span<const PlotPoint> points, std::size_t most);

}  // namespace triaccel
