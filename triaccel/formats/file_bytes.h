#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace triaccel {

/// Reads a regular file of at most `max_bytes`. Checks size and type before allocating; throws
/// DefectError (a DataError) naming the file and the remedy.
std::vector<std::byte> read_file(const std::filesystem::path& file, std::uint64_t max_bytes);

/// The size of a regular file that is not empty and has at most `max_bytes`; throws likewise.
std::int64_t checked_file_size(const std::filesystem::path& file, std::uint64_t max_bytes);

/// Decompresses one gzip stream to at most `max_bytes`, also for malicious input.
std::vector<std::byte> inflate_gzip(std::span<const std::byte> packed, std::uint64_t max_bytes,
                                    std::string_view file_name);

/// Decompresses a deflate stream without header, as in a zip file, to exactly `size` bytes; throws
/// DataError that begins with `place`.
std::vector<std::byte> inflate_raw(std::span<const std::byte> packed, std::uint64_t size,
                                   std::string_view place);

/// `file` or `file`.gz, whichever exists.
std::optional<std::filesystem::path> find_plain_or_gzip(const std::filesystem::path& file);

/// Reads `file` or `file`.gz; `max_bytes` limits the uncompressed size.
std::vector<std::byte> read_plain_or_gzip(const std::filesystem::path& file,
                                          std::uint64_t max_bytes);

}  // namespace triaccel
