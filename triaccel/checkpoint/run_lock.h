#pragma once

#include <filesystem>

namespace triaccel {

/// Locks a run directory for this process with an exclusive flock on `<run>/.lock`. The kernel
/// releases it when the process ends, so locks never become stale.
class [[nodiscard]] RunLock {
 public:
  /// Creates the directory if missing. Throws RunLocked naming the process that holds the lock, or
  /// StorageError if the file system does not support locks.
  explicit RunLock(const std::filesystem::path& run_directory);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_ = -1;
};

/// Whether a process holds the lock of a run directory now. Creates nothing.
bool is_run_locked(const std::filesystem::path& run_directory);

}  // namespace triaccel
