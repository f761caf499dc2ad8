#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

namespace triaccel {

/// A new file, written from start to end. Every failure is a StorageError that names the file and
/// the system's reason; the file is then worthless and has to be started afresh.
class FileWriter {
 public:
  /// Throws when there already is a file of this name.
  explicit FileWriter(std::filesystem::path path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::span<const std::byte> bytes);

  /// Brings everything to the disk and closes the file. Nothing counts as written before.
  void finish();

 private:
  void flush();
  void write_through(std::span<const std::byte> bytes);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::vector<std::byte> waiting_;  // small pieces, gathered into one call
};

/// Makes renames, creations and removals in a directory survive a power cut.
void sync_directory(const std::filesystem::path& directory);

/// Renames within one file system, replacing a file of the new name.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace triaccel
