#pragma once

#include <string>
#include <vector>

#include "triaccel/telemetry/records/spread.h"

namespace triaccel {

/// A table as cells of text: what the terminal and the page show alike.
struct TableCells {
  std::vector<std::string> header = {};
  std::vector<std::vector<std::string>> rows = {};
};

/// "-" for what is not finite.
std::string number_cell(double value, int decimals);

/// "81.20 ± 0.35"; the mean alone where there is no deviation.
std::string spread_cell(const Spread& spread, int decimals);

/// Enough digits for three figures that count, whatever machine it ran on.
int decimals_for(const Spread& spread);

/// For a terminal: names to the left, numbers to the right.
std::string aligned_table(const TableCells& cells);

std::string html_table(const TableCells& cells);

}  // namespace triaccel
