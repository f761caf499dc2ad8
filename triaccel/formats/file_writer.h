#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

namespace triaccel {

/// A new file, written sequentially. Failures throw StorageError naming the file and the reason;
/// the file is then invalid and must be rewritten from the start.
class FileWriter {
 public:
  /// Throws if the file exists.
  explicit FileWriter(std::filesystem::path path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::span<const std::byte> bytes);

  /// Syncs to disk and closes the file; nothing is guaranteed to be written before.
  void finish();

 private:
  void flush();
  void write_through(std::span<const std::byte> bytes);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::vector<std::byte> buffer_;  // small pieces, collected into one call
};

/// Makes renames, creations and removals in a directory durable.
void sync_directory(const std::filesystem::path& directory);

/// Renames within one file system, replacing a file of the new name.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace triaccel
