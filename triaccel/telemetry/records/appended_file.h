#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace triaccel {

/// A file that only grows. Each append is handed to the operating system at once, so that it
/// survives the death of the process. Throws StorageError naming the file.
class AppendedFile {
 public:
  /// Creates the file, or empties it.
  static AppendedFile create(const std::filesystem::path& path);
  /// Goes on at the end of an existing file.
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

/// Replaces `path` by `bytes`, all or nothing: temporary file beside it, fsync, rename, fsync of
/// the directory. Throws StorageError naming the file.
void write_atomically(const std::filesystem::path& path, std::string_view bytes);

/// The last two steps of the above, for a temporary file that was written and synced piece by
/// piece.
void rename_durably(const std::filesystem::path& temporary, const std::filesystem::path& path);

/// The name a file has until it is complete: in the same directory, so that a rename is atomic.
std::filesystem::path temporary_name(const std::filesystem::path& path);

/// A whole text file of at most `max_bytes`. Throws StorageError naming the file.
std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes);

}  // namespace triaccel
