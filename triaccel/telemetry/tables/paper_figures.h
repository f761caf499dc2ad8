#pragma once

#include <initializer_list>
#include <limits>
#include <span>
#include <string_view>

namespace triaccel {

/// The tables of the paper that `reproduce` runs.
enum class PaperTable { Table1, Table2 };

constexpr std::string_view name_of(PaperTable table) {
  switch (table) {
    case PaperTable::Table1:
      return "table1";
    case PaperTable::Table2:
      return "table2";
  }
  return "";
}

/// Reads what name_of wrote; what it could have been where it is something else, "" otherwise.
constexpr std::string_view read_name(std::string_view name, PaperTable& table) {
  for (const PaperTable known : {PaperTable::Table1, PaperTable::Table2})
    if (name == name_of(known)) {
      table = known;
      return "";
    }
  return "table1 or table2";
}

/// A row as the paper prints it, under our names; NaN where it prints nothing. Each stands for
/// three seeds, of which it gives no spread.
struct PaperFigure {
  std::string_view data;
  std::string_view model;
  std::string_view method;         // "fp32", "amp", "triaccel"
  std::string_view configuration;  // of the ablation: "standard", "dynamic-batch",
                                   // "dynamic-precision", "full"; otherwise ""
  std::string_view printed_name;
  double accuracy = std::numeric_limits<double>::quiet_NaN();  // per cent
  double seconds_per_epoch = std::numeric_limits<double>::quiet_NaN();
  double gigabytes = std::numeric_limits<double>::quiet_NaN();  // peak VRAM
  double score = std::numeric_limits<double>::quiet_NaN();
  double reduction = std::numeric_limits<double>::quiet_NaN();  // per cent of memory
};

/// Accuracy, time, memory and score of three methods on two networks and two data sets.
std::span<const PaperFigure> paper_table1();

/// Memory under the parts of the method, on CIFAR-10. Its printed reductions do not all follow from
/// its own memory column (EfficientNet-B0: 13.3 % printed, 12.0 % computed).
std::span<const PaperFigure> paper_table2();

std::span<const PaperFigure> paper_figures(PaperTable table);

}  // namespace triaccel
