#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace triaccel {

/// The whole of a regular file of at most `max_bytes`. Size and kind are checked before anything is
/// allocated; throws DefectError (a DataError) naming the file and what to do.
std::vector<std::byte> read_file(const std::filesystem::path& file, std::uint64_t max_bytes);

/// Inflates one gzip stream of at most `max_bytes`; a bomb costs no more memory than that.
std::vector<std::byte> inflate_gzip(std::span<const std::byte> packed, std::uint64_t max_bytes,
                                    std::string_view file_name);

/// `file` if it is there, else `file`.gz if that is.
std::optional<std::filesystem::path> find_plain_or_gzip(const std::filesystem::path& file);

/// Reads `file` or `file`.gz; `max_bytes` holds for what the caller gets, packed or not.
std::vector<std::byte> read_plain_or_gzip(const std::filesystem::path& file,
                                          std::uint64_t max_bytes);

}  // namespace triaccel
