#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "triaccel/telemetry/records/run_record.h"

namespace triaccel {

/// A report of one run, or of several side by side, as one HTML file that loads nothing from
/// elsewhere, follows the reader's light or dark setting and prints. Every text is escaped.
std::string html_report(std::span<const RunRecord> runs, std::string_view title);

/// The same into a file, all or nothing. Throws StorageError naming the file.
void write_html_report(const std::filesystem::path& path, std::span<const RunRecord> runs,
                       std::string_view title);

}  // namespace triaccel
