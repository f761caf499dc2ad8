#pragma once

#include <filesystem>

namespace triaccel {

/// Holds a run directory for this process: an exclusive flock on `<run>/.lock`. The kernel lets go
/// of it when the process dies, however it dies, so there is no stale lock.
class [[nodiscard]] RunLock {
 public:
  /// Creates the directory when it is missing. Throws RunLocked, naming the process that holds it,
  /// or StorageError when the file system cannot lock.
  explicit RunLock(const std::filesystem::path& run_directory);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace triaccel
