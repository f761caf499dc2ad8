#include "triaccel/telemetry/records/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "triaccel/base/error.h"

namespace triaccel {

FolderLock::FolderLock(const std::filesystem::path& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0)
    throw StorageError(text("cannot open ", folder.string(), ": ", std::strerror(errno)));
  // Where a file system cannot lock a folder, one process at a time still works.
  while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace triaccel
