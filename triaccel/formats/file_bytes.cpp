#include "triaccel/formats/file_bytes.h"

#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "triaccel/base/byte_size.h"
#include "triaccel/formats/bad_data.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string file, Defect defect, std::string detail) {
  throw DefectError(Finding{
      .file = std::move(file), .record = -1, .defect = defect, .detail = std::move(detail)});
}

bool is_there(const fs::path& file) {
  std::error_code error;
  return fs::exists(file, error);
}

class [[nodiscard]] InflateStream {
 public:
  explicit InflateStream(int window_bits) {
    if (inflateInit2(&stream_, window_bits) != Z_OK) throw std::bad_alloc();
  }
  ~InflateStream() { inflateEnd(&stream_); }
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;
  z_stream* operator->() { return &stream_; }
  z_stream* get() { return &stream_; }

 private:
  z_stream stream_ = {};
};

// A gzip file ends with its uncompressed size modulo 2^32: an untrusted hint, used only for the
// first buffer. Deflate expands by at most a factor of 1032.
std::size_t first_buffer(std::span<const std::byte> packed, std::uint64_t max_bytes) {
  std::uint64_t declared = 0;
  for (std::size_t i = 0; i < 4; ++i)
    declared |= std::to_integer<std::uint64_t>(packed[packed.size() - 4 + i]) << (8 * i);
  const std::uint64_t possible = 1032 * static_cast<std::uint64_t>(packed.size());
  return static_cast<std::size_t>(
      std::min({std::max<std::uint64_t>(declared, 4096), possible, max_bytes}) + 1);
}

}  // namespace

std::int64_t checked_file_size(const fs::path& file, std::uint64_t max_bytes) {
  const std::string name = file.string();
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (status.type() == fs::file_type::not_found)
    fail(name, Defect::MissingFile, "check the path, or unpack the archive there");
  if (error) fail(name, Defect::Unreadable, error.message() + "; check its permissions");
  if (status.type() != fs::file_type::regular)
    fail(name, Defect::Unreadable, "not a regular file; check the path");
  const std::uintmax_t size = fs::file_size(file, error);
  if (error) fail(name, Defect::Unreadable, error.message());
  if (size == 0) fail(name, Defect::EmptyFile, "download it again");
  if (size > max_bytes)
    fail(name, Defect::FileTooLarge,
         text(size, " bytes, more than the limit of ", max_bytes, "; is it the right file?"));
  return static_cast<std::int64_t>(size);
}

std::vector<std::byte> read_file(const fs::path& file, std::uint64_t max_bytes) {
  const std::string name = file.string();
  const std::int64_t size = checked_file_size(file, max_bytes);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(file.c_str(), "rb"),
                                                           &std::fclose);
  if (in == nullptr) fail(name, Defect::Unreadable, "cannot be opened; check its permissions");
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  if (std::fread(bytes.data(), 1, bytes.size(), in.get()) != bytes.size())
    fail(name, Defect::Unreadable,
         text("read fewer than the expected ", size, " bytes; is the file being written?"));
  return bytes;
}

std::vector<std::byte> inflate_gzip(std::span<const std::byte> packed, std::uint64_t max_bytes,
                                    std::string_view file_name) {
  const std::string name(file_name);
  constexpr std::size_t smallest_gzip = 18;  // header and trailer
  if (packed.size() < 2 || packed[0] != std::byte{0x1f} || packed[1] != std::byte{0x8b})
    fail(name, Defect::BadGzip, "not a gzip file; download it again");
  if (packed.size() < smallest_gzip)
    fail(name, Defect::TruncatedGzip, text(packed.size(), " bytes; download it again"));

  std::vector<std::byte> bytes(first_buffer(packed, max_bytes));
  InflateStream stream(/*gzip only*/ 16 + MAX_WBITS);
  std::size_t read = 0, written = 0;
  for (;;) {
    // zlib counts in 32 bits: input and output are passed in pieces.
    constexpr std::size_t piece = std::size_t{1} << 30;
    const std::size_t give = std::min(packed.size() - read, piece);
    const std::size_t room = std::min(bytes.size() - written, piece);
    // zlib's interface predates const; it only reads.
    stream->next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + read));
    stream->avail_in = static_cast<uInt>(give);
    stream->next_out = reinterpret_cast<Bytef*>(bytes.data() + written);
    stream->avail_out = static_cast<uInt>(room);
    const int result = inflate(stream.get(), Z_NO_FLUSH);
    read += give - stream->avail_in;
    written += room - stream->avail_out;
    if (written > max_bytes)
      fail(name, Defect::GzipTooLarge,
           text("more than ", byte_text(static_cast<std::int64_t>(max_bytes)),
                "; is it the right file?"));
    if (result == Z_STREAM_END) break;
    if (result != Z_OK && result != Z_BUF_ERROR)
      fail(name, Defect::BadGzip,
           text(stream->msg != nullptr ? stream->msg : "damaged", " near byte ", read,
                "; download it again"));
    if (written == bytes.size())
      bytes.resize(static_cast<std::size_t>(
          std::min(2 * static_cast<std::uint64_t>(bytes.size()), max_bytes) + 1));
    else if (read == packed.size())
      fail(name, Defect::TruncatedGzip,
           text("ends after ", read, " bytes, inside the stream; download it again"));
  }
  if (read != packed.size())
    fail(name, Defect::TrailingBytes,
         text(packed.size() - read, " bytes after the gzip stream; download it again"));
  bytes.resize(written);
  return bytes;
}

std::vector<std::byte> inflate_raw(std::span<const std::byte> packed, std::uint64_t size,
                                   std::string_view place) {
  // Deflate expands by at most a factor of 1032.
  if (size / 1032 > packed.size())
    throw DataError(text(place, ": ", packed.size(), " compressed bytes cannot hold ", size));
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  InflateStream stream(/*no header*/ -MAX_WBITS);
  std::size_t read = 0, written = 0;
  for (;;) {
    constexpr std::size_t piece = std::size_t{1} << 30;
    const std::size_t give = std::min(packed.size() - read, piece);
    std::byte spare{};  // tells whether there is more than promised
    const bool full = written == bytes.size();
    const std::size_t room = full ? 1 : std::min(bytes.size() - written, piece);
    stream->next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + read));
    stream->avail_in = static_cast<uInt>(give);
    stream->next_out = reinterpret_cast<Bytef*>(full ? &spare : bytes.data() + written);
    stream->avail_out = static_cast<uInt>(room);
    const int result = inflate(stream.get(), Z_NO_FLUSH);
    read += give - stream->avail_in;
    const std::size_t made = room - stream->avail_out;
    if (full && made > 0) throw DataError(text(place, ": expands beyond its ", size, " bytes"));
    written += made;
    if (result == Z_STREAM_END) break;
    if (result != Z_OK && result != Z_BUF_ERROR)
      throw DataError(text(place, ": ", stream->msg != nullptr ? stream->msg : "damaged",
                           " near compressed byte ", read));
    if (made == 0 && give == stream->avail_in)
      throw DataError(text(place, ": the compressed data ends early"));
  }
  if (read != packed.size() || written != bytes.size())
    throw DataError(text(place, ": expands to ", written, " bytes, not ", size));
  return bytes;
}

std::optional<fs::path> find_plain_or_gzip(const fs::path& file) {
  if (is_there(file)) return file;
  fs::path packed = file;
  packed += ".gz";
  if (is_there(packed)) return packed;
  return std::nullopt;
}

std::vector<std::byte> read_plain_or_gzip(const fs::path& file, std::uint64_t max_bytes) {
  const std::optional<fs::path> found = find_plain_or_gzip(file);
  if (!found) fail(file.string(), Defect::MissingFile, "not found with .gz either; check the path");
  if (*found == file) return read_file(file, max_bytes);
  // Incompressible data grows by 5 bytes per 16 KiB block plus a header.
  const std::uint64_t packed_limit = max_bytes + max_bytes / 1000 + 4096;
  return inflate_gzip(read_file(*found, packed_limit), max_bytes, found->string());
}

}  // namespace triaccel
