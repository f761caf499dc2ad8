#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace triaccel {

/// An append-only file. Each append is written to the operating system at once, so it survives the
/// end of the process. Throws StorageError naming the file.
class AppendedFile {
 public:
  /// Creates or truncates the file.
  static AppendedFile create(const std::filesystem::path& path);
  /// Opens an existing file for appending.
  static AppendedFile open_at_end(const std::filesystem::path& path);

  AppendedFile(AppendedFile&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  AppendedFile& operator=(AppendedFile&&) = delete;
  ~AppendedFile();

  void append(std::string_view bytes);
  /// Returns once the bytes are on the disk.
  void sync();

 private:
  AppendedFile(const std::filesystem::path& path, int flags);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Atomically replaces the content of `path`: temporary file in the same directory, fsync, rename,
/// fsync of the directory. Throws StorageError naming the file.
void write_atomically(const std::filesystem::path& path, std::string_view bytes);

/// The last two steps of write_atomically, for a temporary file written and synced by the caller.
void rename_durably(const std::filesystem::path& temporary, const std::filesystem::path& path);

/// Name of a temporary file that does not exist yet: in the same directory, so that the rename is
/// atomic.
std::filesystem::path temporary_name(const std::filesystem::path& path);

/// Throws StorageError if `path` exists but is not a regular file: opening a FIFO would block.
void require_regular_file(const std::filesystem::path& path);

/// Reads a regular file of at most `max_bytes`. Throws StorageError naming the file.
std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes);

}  // namespace triaccel
