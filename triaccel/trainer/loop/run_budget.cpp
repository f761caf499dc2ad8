#include "triaccel/trainer/loop/run_budget.h"

#include <fstream>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/telemetry/records/appended_file.h"

namespace triaccel {

void write_run_budget(const std::filesystem::path& directory, const Budget& budget) {
  write_atomically(directory / kBudgetFile, budget.text() + "\n");
}

std::optional<Budget> read_run_budget(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kBudgetFile;
  std::ifstream file(path);
  if (!file) return {};
  std::string written;
  std::getline(file, written);
  try {
    return Budget(written);
  } catch (const UsageError&) {
    throw UsageError(text("'", path.string(), "' holds no budget: '", written,
                          "'; write one with 'triaccel budget'"));
  }
}

std::optional<Budget> RunBudget::take() {
  try {
    std::optional<Budget> wanted = read_run_budget(directory_);
    if (!wanted || *wanted == current_) return {};
    current_ = *wanted;
    return wanted;
  } catch (const UsageError& error) {
    if (std::exchange(complaint_, error.what()) == error.what()) return {};
    throw;
  }
}

}  // namespace triaccel
