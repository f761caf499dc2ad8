#pragma once

#include <filesystem>

namespace triaccel {

/// Holds a folder against other processes that record into it; waits for them. Throws StorageError.
class [[nodiscard]] FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace triaccel
