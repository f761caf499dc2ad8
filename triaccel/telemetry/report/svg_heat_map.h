#pragma once

#include <string>
#include <vector>

namespace triaccel {

inline constexpr int kHeatShades = 8;  // classes h0 (lowest) to h7 of the report's style

/// One row of a heat map.
struct HeatRow {
  std::string name = {};
  std::string remark = {};       // tooltip
  std::vector<int> shades = {};  // per column: index of the colour; negative: unknown
};

/// A value per row and column, shown as colour; columns are time.
struct HeatMap {
  std::string title = {};  // alternative text
  std::string x_label = {};
  std::string shade_class = "h";   // "h": shades of one hue; "c": the colours of series
  std::vector<double> edges = {};  // of the columns, ascending: one more than a row has shades
  std::vector<HeatRow> rows = {};
  bool wide = false;  // spans the page instead of half of it
};

/// Rows with their names on the left, for up to about a hundred rows.
std::string svg_heat_map(const HeatMap& map);

/// Positive values on a logarithmic scale of kHeatShades shades.
class LogShades {
 public:
  /// Covers at most six decades below the maximum; lower values get the lowest shade.
  explicit LogShades(const std::vector<double>& values);
  bool empty() const { return !(high_ > 0); }
  double low() const { return low_; }
  double high() const { return high_; }
  /// -1 unless the value is positive.
  int shade(double value) const;

 private:
  double low_ = 0;
  double high_ = 0;
};

}  // namespace triaccel
