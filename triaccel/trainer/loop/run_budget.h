#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "triaccel/base/byte_size.h"

namespace triaccel {

inline constexpr const char* kBudgetFile = "budget.txt";

/// Gives the run in a directory another memory budget: while it trains from its next decision on,
/// else when it is resumed. Throws StorageError.
void write_run_budget(const std::filesystem::path& directory, const Budget& budget);

/// The budget that was written last; empty: none was. Throws UsageError naming the file where it
/// is no budget.
std::optional<Budget> read_run_budget(const std::filesystem::path& directory);

/// Looks for another budget while a run trains.
class RunBudget {
 public:
  RunBudget(std::filesystem::path directory, Budget first)
      : directory_(std::move(directory)), current_(std::move(first)) {}

  /// Another budget than before, once. A file that is no budget is an error once, too.
  std::optional<Budget> take();

 private:
  std::filesystem::path directory_;
  Budget current_;
  std::string complaint_;
};

}  // namespace triaccel
