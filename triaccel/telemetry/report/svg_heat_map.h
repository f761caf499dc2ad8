#pragma once

#include <string>
#include <vector>

namespace triaccel {

inline constexpr int kHeatShades = 8;  // classes h0 (lowest) to h7 of the report's style

/// One row of a heat map.
struct HeatRow {
  std::string name = {};
  std::string remark = {};       // shows under the pointer
  std::vector<int> shades = {};  // one a column: index of the colour; negative: nothing known
};

/// A value a row and column, as colour. Time runs along the columns.
struct HeatMap {
  std::string title = {};  // for readers that do not see the picture
  std::string x_label = {};
  std::string shade_class = "h";   // "h": shades of one hue; "c": the colours of series
  std::vector<double> edges = {};  // of the columns: one more than a row has shades, rising
  std::vector<HeatRow> rows = {};
  bool wide = false;  // over the whole page instead of half of it
};

/// Rows with their names at the left, close enough for a hundred of them.
std::string svg_heat_map(const HeatMap& map);

/// Positive values on a logarithmic scale of kHeatShades shades.
class LogShades {
 public:
  /// At most six decades below the largest value; what lies lower gets the lowest shade.
  explicit LogShades(const std::vector<double>& values);
  bool empty() const { return !(high_ > 0); }
  double low() const { return low_; }
  double high() const { return high_; }
  /// -1 for what is not a positive number.
  int shade(double value) const;

 private:
  double low_ = 0;
  double high_ = 0;
};

}  // namespace triaccel
