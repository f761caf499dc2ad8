#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace triaccel {

/// Calls `visit(line, where)` for every line of a JSONL file in order; `where` is "file:line" for
/// messages. A last line that was cut short, which a killed process may leave, is left out: then
/// the answer is true. Throws StorageError for a file that cannot be read or is longer than
/// `max_bytes`; what `visit` throws for a complete line passes through.
bool for_each_json_line(
    const std::filesystem::path& path, std::int64_t max_bytes,
    const std::function<void(const std::string& line, const std::string& where)>& visit);

}  // namespace triaccel
