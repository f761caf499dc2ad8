#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "triaccel/telemetry/records/run_record.h"

namespace triaccel {

/// A report of one run, or a comparison of several, as a self-contained HTML file with light, dark
/// and print styles. All text is escaped.
std::string html_report(std::span<const RunRecord> runs, std::string_view title);

/// Writes the report to a file atomically. Throws StorageError naming the file.
void write_html_report(const std::filesystem::path& path, std::span<const RunRecord> runs,
                       std::string_view title);

}  // namespace triaccel
