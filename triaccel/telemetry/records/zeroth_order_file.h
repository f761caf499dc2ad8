#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "triaccel/core/step_report.h"
#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/telemetry/sink.h"

namespace triaccel {

inline constexpr const char* kZerothOrderCsv = "zeroth_order.csv";

/// Writes zeroth_order.csv to a run directory: step, learning rate and projected gradients of every
/// zeroth-order step, exactly. A run without such steps gets no file. Throws StorageError naming
/// the file.
class ZerothOrderFile final : public Sink {
 public:
  /// Resumes after `steps_done` zeroth-order steps; 0: replaces a file of an earlier run.
  ZerothOrderFile(const std::filesystem::path& directory, std::int64_t steps_done);

  void interval(const StepReport& report, const StepPlan& plan) override;

 private:
  std::filesystem::path path_;
  std::optional<AppendedFile> file_;
};

/// Reads the steps in order: after a rollback, repeated steps replace the earlier ones. An
/// incomplete last line is skipped. Throws StorageError naming the line.
std::vector<ZerothOrderStep> read_zeroth_order(const std::filesystem::path& path);

}  // namespace triaccel
