#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "triaccel/telemetry/sink.h"

namespace triaccel {

inline constexpr const char* kSummaryFile = "summary.json";

/// One line of JSON; the keys are the names of RunSummary's fields. What is not finite becomes
/// null.
std::string to_json(const RunSummary& summary);

/// Throws StorageError with `where` in front; null becomes NaN, a missing key its default.
RunSummary summary_from_json(std::string_view json, std::string_view where);

/// Writes the summary all or nothing, indented for people. Throws StorageError naming the file.
void write_summary(const std::filesystem::path& path, const RunSummary& summary);

RunSummary read_summary(const std::filesystem::path& path);

/// Over all of the run; 0 where it has taken no time.
double samples_per_second(const RunSummary& run);

}  // namespace triaccel
