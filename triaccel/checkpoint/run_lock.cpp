#include "triaccel/checkpoint/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

std::string reason(int code) { return std::generic_category().message(code); }

std::string this_process() {
  std::array<char, 256> host = {};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return text("process ", ::getpid(), " on ", host[0] == '\0' ? "this machine" : host.data());
}

/// Description written by the lock holder, if it has been written yet.
std::string holder_in(int descriptor) {
  std::array<char, 512> written = {};
  const ssize_t size = ::pread(descriptor, written.data(), written.size() - 1, 0);
  const std::string holder(written.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  const bool whole = holder.starts_with("process ") && holder.ends_with('\n');
  return whole ? holder.substr(0, holder.size() - 1) : "another process";
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& run_directory) {
  std::error_code code;
  std::filesystem::create_directories(run_directory, code);
  if (code)
    throw StorageError(text(run_directory.string(), ": cannot create: ", code.message(),
                            "; choose another folder with --out"));
  const std::filesystem::path file = run_directory / ".lock";
  do descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);
  while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0)
    throw StorageError(text(file.string(), ": cannot open: ", reason(errno),
                            "; check the permissions of the folder"));

  int result = -1;
  do result = ::flock(descriptor_, LOCK_EX | LOCK_NB);
  while (result != 0 && errno == EINTR);
  if (result != 0) {
    const int error = errno;
    const std::string holder = holder_in(descriptor_);
    ::close(descriptor_);
    if (error != EWOULDBLOCK)
      throw StorageError(text(file.string(), ": cannot lock: ", reason(error),
                              "; use a file system that supports flock"));
    throw RunLocked(text(run_directory.string(), ": ", holder,
                         " is using this run; wait for it, stop it, or choose another --out"));
  }
  // Only used in the error message of another process, so failures are ignored.
  const std::string holder = this_process() + "\n";
  [[maybe_unused]] const bool ignored = ::ftruncate(descriptor_, 0) == 0 &&
                                        ::pwrite(descriptor_, holder.data(), holder.size(), 0) > 0;
}

RunLock::~RunLock() { ::close(descriptor_); }

bool is_run_locked(const std::filesystem::path& run_directory) {
  const int descriptor =
      ::open((run_directory / ".lock").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool locked = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return locked;
}

}  // namespace triaccel
