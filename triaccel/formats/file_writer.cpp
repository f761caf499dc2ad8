#include "triaccel/formats/file_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

constexpr std::size_t kGatherBytes = std::size_t{1} << 20;

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view what, int code) {
  throw StorageError(text(path.string(), ": cannot ", what, ": ",
                          std::generic_category().message(code),
                          code == ENOSPC || code == EDQUOT ? "; free some space" : ""));
}

int open_retrying(const std::filesystem::path& path, int flags) {
  int descriptor = -1;
  do descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

}  // namespace

FileWriter::FileWriter(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(open_retrying(path_, O_WRONLY | O_CREAT | O_EXCL)) {
  if (descriptor_ < 0) fail(path_, "create the file", errno);
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FileWriter::write(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kGatherBytes) flush();
  if (bytes.size() > kGatherBytes)
    write_through(bytes);
  else
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void FileWriter::flush() {
  write_through(buffer_);
  buffer_.clear();
}

void FileWriter::write_through(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "write", errno);
    if (written == 0) fail(path_, "write", EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void FileWriter::finish() {
  flush();
  // After a failed fsync the kernel may have dropped the pages and marked them clean: a second
  // call on this descriptor would succeed without the data being on the disk.
  if (::fsync(descriptor_) != 0) fail(path_, "sync", errno);
  ::close(std::exchange(descriptor_, -1));  // already synced, so close has nothing to report
}

void sync_directory(const std::filesystem::path& directory) {
  const int descriptor = open_retrying(directory, O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) fail(directory, "open the directory", errno);
  const int code = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (code != 0) fail(directory, "sync the directory", code);
}

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0)
    fail(from, text("rename to ", to.filename().string()), errno);
}

}  // namespace triaccel
