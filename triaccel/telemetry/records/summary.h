#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "triaccel/telemetry/sink.h"

namespace triaccel {

inline constexpr const char* kSummaryFile = "summary.json";

/// One line of JSON; the keys are the field names of RunSummary. Non-finite numbers become null.
std::string to_json(const RunSummary& summary);

/// Null becomes NaN, a missing key its default. Throws StorageError prefixed with `where`.
RunSummary summary_from_json(std::string_view json, std::string_view where);

/// Writes the summary atomically, indented. Throws StorageError naming the file.
void write_summary(const std::filesystem::path& path, const RunSummary& summary);

RunSummary read_summary(const std::filesystem::path& path);

/// Mean over the run; 0 if no time was measured.
double samples_per_second(const RunSummary& run);

}  // namespace triaccel
