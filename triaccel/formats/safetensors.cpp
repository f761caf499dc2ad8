#include "triaccel/formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/formats/file_bytes.h"
#include "triaccel/formats/file_writer.h"
#include "triaccel/formats/safetensors_header.h"

namespace triaccel {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxTensorFileBytes = std::uint64_t{1} << 40;

/// Bytes of a tensor; nothing if a size is negative or the product overflows.
std::optional<std::uint64_t> byte_count(ElementType type, std::span<const std::int64_t> shape) {
  std::int64_t count = size_of(type);
  for (const std::int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) return std::nullopt;
  return static_cast<std::uint64_t>(count);
}

/// Checks that the tensors cover the buffer exactly and have the sizes of their shapes.
void check_layout(const std::vector<TensorEntry>& tensors, std::uint64_t buffer_bytes,
                  std::string_view file_name) {
  std::uint64_t covered = 0;
  for (const TensorEntry& tensor : tensors) {
    const auto reject = [&](auto&&... why) {
      throw DataError(text(file_name, ": tensor '", tensor.name, "': ", why...));
    };
    if (tensor.begin > tensor.end || tensor.end > buffer_bytes)
      reject("data_offsets [", tensor.begin, ", ", tensor.end, "] exceed the ", buffer_bytes,
             " bytes of data; is the file complete?");
    if (tensor.begin != covered)
      reject("starts at byte ", tensor.begin, " of the data, expected ", covered);
    if (byte_count(tensor.type, tensor.shape) != tensor.end - tensor.begin)
      reject("has ", tensor.end - tensor.begin, " bytes, which does not match its dtype and shape");
    covered = tensor.end;
  }
  if (covered != buffer_bytes)
    throw DataError(text(file_name, ": the last ", buffer_bytes - covered, " of ", buffer_bytes,
                         " bytes of data belong to no tensor"));
}

/// Widest elements first, as in the reference implementation, so that each tensor is aligned.
std::vector<const StateView*> in_file_order(std::span<const StateView> tensors) {
  std::vector<const StateView*> ordered;
  for (const StateView& tensor : tensors) ordered.push_back(&tensor);
  std::sort(ordered.begin(), ordered.end(), [](const StateView* a, const StateView* b) {
    if (size_of(a->type) != size_of(b->type)) return size_of(a->type) > size_of(b->type);
    return a->name < b->name;
  });
  return ordered;
}

std::string json_text(const std::string& words) {
  try {
    return nlohmann::ordered_json(words).dump();
  } catch (const nlohmann::ordered_json::exception& error) {
    throw UsageError(text("a tensor name is not UTF-8: ", error.what()));
  }
}

std::string header_of(const std::vector<const StateView*>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  constexpr std::string_view who = "write_safetensors";
  std::ostringstream header;
  std::string_view separator = "{";
  if (!metadata.empty()) {
    std::string_view comma = "{\"__metadata__\":{";
    for (const auto& [key, value] : metadata)
      header << std::exchange(comma, ",") << json_text(key) << ":" << json_text(value);
    header << "}";
    separator = ",";
  }
  std::uint64_t offset = 0;
  for (const StateView* tensor : tensors) {
    require(tensor->name != "__metadata__", who, "a tensor must not be named __metadata__");
    require(byte_count(tensor->type, tensor->shape) == tensor->bytes.size(), who, "tensor '",
            tensor->name, "' has ", tensor->bytes.size(),
            " bytes, which does not match its type and shape");
    header << std::exchange(separator, ",") << json_text(tensor->name) << ":{\"dtype\":\""
           << name_of(tensor->type)
           << "\",\"shape\":" << nlohmann::ordered_json(tensor->shape).dump()
           << ",\"data_offsets\":[" << offset << "," << offset + tensor->bytes.size() << "]}";
    offset += tensor->bytes.size();
  }
  header << (separator == "{" ? "{}" : "}");
  std::string written = std::move(header).str();
  written.resize(round_up(written.size(), kLengthBytes), ' ');
  return written;
}

/// Refuses to write what could not be read back.
void check_header(std::string_view header) {
  try {
    require(header.size() <= kMaxSafetensorsHeader, "write_safetensors", "the header takes ",
            header.size(), " bytes; split the file");
    parse_safetensors_header(header, "header");
  } catch (const DataError& error) {
    throw UsageError(text("[write_safetensors] ", error.what()));
  }
}

/// The length of the header, from the first bytes of a file.
std::uint64_t header_length(std::span<const std::byte> start, std::uint64_t file_bytes,
                            std::string_view file_name) {
  if (start.size() < kLengthBytes)
    throw DataError(text(file_name, ": ", file_bytes, " bytes are too few for a safetensors file"));
  std::uint64_t length = 0;
  std::memcpy(&length, start.data(), kLengthBytes);
  if (length > kMaxSafetensorsHeader) throw DataError(text(file_name, ": not a safetensors file"));
  if (length > file_bytes - kLengthBytes)
    throw DataError(text(file_name, ": byte 0: a header of ", length, " bytes in a file of ",
                         file_bytes, "; is it a complete safetensors file?"));
  return length;
}

SafetensorsHeader checked_header(std::span<const std::byte> header, std::uint64_t file_bytes,
                                 std::string_view file_name) {
  SafetensorsHeader parsed = parse_safetensors_header(
      {reinterpret_cast<const char*>(header.data()), header.size()}, file_name);
  check_layout(parsed.tensors, file_bytes - kLengthBytes - header.size(), file_name);
  return parsed;
}

/// Checks the first bytes of a file before reading gigabytes.
void check_start_of(const std::filesystem::path& path, std::uint64_t file_bytes) {
  std::ifstream file(path, std::ios::binary);
  const auto next = [&](std::uint64_t count) {
    std::vector<std::byte> bytes(count);
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(count));
    bytes.resize(static_cast<std::size_t>(file.gcount()));
    return bytes;
  };
  const std::uint64_t length = header_length(next(kLengthBytes), file_bytes, path.string());
  checked_header(next(length), file_bytes, path.string());
}

}  // namespace

TensorFile parse_safetensors(std::shared_ptr<const std::vector<std::byte>> bytes,
                             std::string_view file_name) {
  const std::span<const std::byte> file = *bytes;
  const std::uint64_t length = header_length(file, file.size(), file_name);
  SafetensorsHeader header =
      checked_header(file.subspan(kLengthBytes, length), file.size(), file_name);
  const auto data = file.subspan(kLengthBytes + length);

  TensorFile result{.metadata = std::move(header.metadata)};
  result.tensors.reserve(header.tensors.size());
  for (TensorEntry& tensor : header.tensors)
    result.tensors.push_back({.name = std::move(tensor.name),
                              .type = tensor.type,
                              .shape = std::move(tensor.shape),
                              .bytes = data.subspan(tensor.begin, tensor.end - tensor.begin),
                              .owner = bytes});
  return result;
}

TensorFile read_safetensors(const std::filesystem::path& path) {
  std::error_code code;
  if (std::filesystem::is_regular_file(path, code))
    check_start_of(path, std::filesystem::file_size(path, code));
  auto bytes = std::make_shared<const std::vector<std::byte>>(read_file(path, kMaxTensorFileBytes));
  return parse_safetensors(std::move(bytes), path.string());
}

void write_safetensors(const ByteSink& sink, std::span<const StateView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::vector<const StateView*> ordered = in_file_order(tensors);
  const std::string header = header_of(ordered, metadata);
  check_header(header);
  const std::uint64_t length = header.size();
  sink(std::as_bytes(std::span(&length, 1)));
  sink(std::as_bytes(std::span(header)));
  for (const StateView* tensor : ordered) sink(tensor->bytes);
}

void write_safetensors(const std::filesystem::path& path, std::span<const StateView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const auto is_taken = [](const std::filesystem::path& name) {
    std::error_code error;
    return std::filesystem::exists(std::filesystem::symlink_status(name, error));
  };
  std::filesystem::path unfinished = path.string() + ".partial";
  for (int number = 2; is_taken(unfinished); ++number)
    unfinished = text(path.string(), ".partial-", number);
  FileWriter file(unfinished);
  std::error_code ignored;
  try {
    write_safetensors([&](std::span<const std::byte> bytes) { file.write(bytes); }, tensors,
                      metadata);
    file.finish();
    rename_path(unfinished, path);
  } catch (...) {
    std::filesystem::remove(unfinished, ignored);
    throw;
  }
  sync_directory(path.has_parent_path() ? path.parent_path() : ".");
}

}  // namespace triaccel
