#include "triaccel/telemetry/records/appended_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

[[noreturn]] void fail(std::string_view what, const std::filesystem::path& path, int error) {
  std::string_view advice = "";
  if (error == ENOSPC || error == EDQUOT) advice = "; free some space, then resume the run";
  if (error == EACCES || error == EPERM || error == EROFS)
    advice = what == "read" ? "; check its permissions"
                            : "; check its permissions, or choose another folder with --out";
  throw StorageError(text("cannot ", what, " ", path.string(), ": ", std::strerror(error), advice));
}

void sync_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  const int descriptor = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail("open the directory", parent, errno);
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  // Some network and FUSE file systems cannot sync a directory; the rename itself has happened.
  if (result != 0 && error != EINVAL && error != ENOTSUP) fail("sync the directory", parent, error);
}

}  // namespace

AppendedFile::AppendedFile(const std::filesystem::path& path, int flags)
    : path_(path),
      descriptor_(::open(path.c_str(), flags | O_WRONLY | O_APPEND | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) fail("open", path_, errno);
}

AppendedFile AppendedFile::create(const std::filesystem::path& path) {
  return AppendedFile(path, O_CREAT | O_TRUNC);
}

AppendedFile AppendedFile::open_at_end(const std::filesystem::path& path) {
  return AppendedFile(path, 0);
}

AppendedFile::~AppendedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AppendedFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path_, errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void AppendedFile::sync() {
  // EINVAL and EROFS: a pipe or a device, which has nothing to sync.
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail("sync", path_, errno);
}

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  std::filesystem::path name = path;
  name += ".partial";
  std::error_code error;
  for (int number = 2; std::filesystem::exists(std::filesystem::symlink_status(name, error));
       ++number)
    name = text(path.string(), ".partial-", number);
  return name;
}

void rename_durably(const std::filesystem::path& temporary, const std::filesystem::path& path) {
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail("rename a new file to", path, errno);
  sync_folder_of(path);
}

void write_atomically(const std::filesystem::path& path, std::string_view bytes) {
  const std::filesystem::path temporary = temporary_name(path);
  try {
    AppendedFile file = AppendedFile::create(temporary);
    file.append(bytes);
    file.sync();
  } catch (const StorageError&) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
  rename_durably(temporary, path);
}

void require_regular_file(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw StorageError(text(path.string(), ": not a regular file"));
}

std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes) {
  require_regular_file(path);
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("read", path, errno);
  std::string bytes;
  std::string block(65536, '\0');
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    bytes.append(block, 0, static_cast<std::size_t>(file.gcount()));
    if (static_cast<std::int64_t>(bytes.size()) > max_bytes)
      throw StorageError(
          text(path.string(), " is larger than ", max_bytes, " bytes; is it the right file?"));
  }
  if (file.bad()) fail("read", path, EIO);
  return bytes;
}

}  // namespace triaccel
