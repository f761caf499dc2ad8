#include "triaccel/formats/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::size_t kMaxFiles = 1024;
constexpr std::size_t kMaxTextBytes = 256;
constexpr std::string_view kSumField = ",\n \"sum\": \"";
constexpr std::string_view kEnd = "\"\n}\n";

[[noreturn]] void reject(std::string_view file, std::string_view field, std::string_view why) {
  throw StorageError(text(file, ": field '", field, "' ", why));
}

/// One JSON object of the manifest with its path, for error messages.
struct Fields {
  const nlohmann::ordered_json& object;
  std::string_view file;
  std::string where;

  std::string path(const char* name) const { return where + name; }

  const nlohmann::ordered_json& at(const char* name) const {
    const auto found = object.find(name);
    if (found == object.end()) reject(file, path(name), "is missing");
    return *found;
  }

  std::int64_t count(const char* name) const {
    const nlohmann::ordered_json& value = at(name);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{INT64_MAX})
      reject(file, path(name), "is not a count");
    return value.get<std::int64_t>();
  }

  std::string words(const char* name) const {
    const nlohmann::ordered_json& value = at(name);
    if (!value.is_string() || value.get_ref<const std::string&>().size() > kMaxTextBytes)
      reject(file, path(name), "is not a short string");
    return value.get<std::string>();
  }

  std::uint64_t hash(const char* name) const { return hash_in(at(name), path(name)); }

  std::uint64_t hash_in(const nlohmann::ordered_json& value, std::string_view field) const {
    if (!value.is_string()) reject(file, field, "is not a hash");
    const std::string& digits = value.get_ref<const std::string&>();
    std::uint64_t hash = 0;
    for (const char digit : digits) {
      const bool decimal = digit >= '0' && digit <= '9';
      if (!decimal && (digit < 'a' || digit > 'f')) reject(file, field, "is not a hash");
      hash = hash << 4 | static_cast<std::uint64_t>(decimal ? digit - '0' : digit - 'a' + 10);
    }
    if (digits.size() != 16) reject(file, field, "is not a hash");
    return hash;
  }

  const nlohmann::ordered_json& list(const char* name) const {
    const nlohmann::ordered_json& value = at(name);
    if (!value.is_array()) reject(file, path(name), "is not a list");
    return value;
  }

  void holds_only(std::size_t fields) const {
    if (object.size() != fields)
      reject(file, where, "has unknown fields; was it written by a newer version?");
  }
};

ManifestFile parse_file(const Fields& fields) {
  ManifestFile file;
  fields.holds_only(4);
  file.name = fields.words("name");
  if (!is_manifest_file_name(file.name))
    reject(fields.file, fields.path("name"), "is not a file name");
  file.sums.size = fields.count("size");
  file.sums.xxh3 = fields.hash("xxh3");
  const nlohmann::ordered_json& chunks = fields.list("chunks");
  const std::int64_t expected =
      file.sums.size / kManifestChunkBytes + (file.sums.size % kManifestChunkBytes != 0 ? 1 : 0);
  if (static_cast<std::int64_t>(chunks.size()) != expected)
    reject(fields.file, fields.path("chunks"), "does not fit the file's size");
  for (const nlohmann::ordered_json& chunk : chunks)
    file.sums.chunks.push_back(fields.hash_in(chunk, fields.path("chunks")));
  return file;
}

/// Parses JSON, rejecting duplicate keys and deep nesting.
nlohmann::ordered_json parse_json(std::string_view written, std::string_view file_name) {
  constexpr int max_depth = 4;
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, nlohmann::ordered_json::parse_event_t event,
                         nlohmann::ordered_json& value) {
    using Event = nlohmann::ordered_json::parse_event_t;
    if (depth > max_depth) reject(file_name, "", "is nested too deeply");
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(value.get<std::string>()).second)
      reject(file_name, value.get_ref<const std::string&>(), "appears twice");
    return true;
  };
  try {
    return nlohmann::ordered_json::parse(written, check);
  } catch (const nlohmann::ordered_json::exception& error) {
    throw StorageError(
        text(file_name, ": not JSON: ", std::string_view(error.what()).substr(0, 300)));
  }
}

nlohmann::ordered_json json_of(const ManifestFile& file) {
  std::vector<std::string> chunks;
  for (const std::uint64_t chunk : file.sums.chunks) chunks.push_back(hash_text(chunk));
  return {{"name", file.name},
          {"size", file.sums.size},
          {"xxh3", hash_text(file.sums.xxh3)},
          {"chunks", chunks}};
}

}  // namespace

bool is_manifest_file_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
  };
  return !name.empty() && name.size() <= 64 && name.front() != '.' && name != "manifest.json" &&
         std::all_of(name.begin(), name.end(), plain);
}

void FileSummer::add(std::span<const std::byte> bytes) {
  whole_.add(bytes);
  while (!bytes.empty()) {
    const std::int64_t room = kManifestChunkBytes - done_.size % kManifestChunkBytes;
    const auto piece = bytes.first(std::min(bytes.size(), static_cast<std::size_t>(room)));
    chunk_.add(piece);
    done_.size += static_cast<std::int64_t>(piece.size());
    if (done_.size % kManifestChunkBytes == 0) {
      done_.chunks.push_back(chunk_.value());
      chunk_.reset();
    }
    bytes = bytes.subspan(piece.size());
  }
}

FileSums FileSummer::sums() const {
  FileSums sums = done_;
  sums.xxh3 = whole_.value();
  if (sums.size % kManifestChunkBytes != 0) sums.chunks.push_back(chunk_.value());
  return sums;
}

FileSums sum_of(std::span<const std::byte> bytes) {
  FileSummer summer;
  summer.add(bytes);
  return summer.sums();
}

std::string seal_manifest(std::string_view open_object) {
  return text(open_object, kSumField, hash_text(xxh3(open_object)), kEnd);
}

std::string manifest_text(const Manifest& manifest) {
  require(manifest.step >= 0, "manifest_text", "step must not be negative, got ", manifest.step);
  require(manifest.commit.size() <= kMaxTextBytes && manifest.torch_version.size() <= kMaxTextBytes,
          "manifest_text", "commit and torch version are at most ", kMaxTextBytes, " bytes");
  nlohmann::ordered_json object = {{"version", kVersion},
                                   {"step", manifest.step},
                                   {"config_hash", hash_text(manifest.config_hash)},
                                   {"commit", manifest.commit},
                                   {"torch_version", manifest.torch_version},
                                   {"files", nlohmann::ordered_json::array()}};
  for (const ManifestFile& file : manifest.files) {
    require(is_manifest_file_name(file.name), "manifest_text", "not a file name: '", file.name,
            "'");
    object["files"].push_back(json_of(file));
  }
  std::string written = object.dump(1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  written.resize(written.rfind("\n}"));
  return seal_manifest(written);
}

Manifest parse_manifest(std::string_view written, std::string_view file_name) {
  if (written.size() > static_cast<std::size_t>(kMaxManifestBytes))
    throw StorageError(text(file_name, ": too large for a manifest (", written.size(), " bytes)"));
  const std::size_t tail = kSumField.size() + 16 + kEnd.size();
  if (written.size() < tail || seal_manifest(written.substr(0, written.size() - tail)) != written)
    reject(file_name, "sum", "does not match: the manifest is truncated or damaged");

  if (written.find('\0') != std::string_view::npos)  // would end the JSON parser's input
    throw StorageError(text(file_name, ": not JSON: contains a zero byte"));
  const nlohmann::ordered_json object = parse_json(written, file_name);
  const Fields fields{object, file_name, ""};
  if (fields.count("version") != kVersion)
    reject(file_name, "version", "was written by another version of triaccel; use that version");
  fields.holds_only(7);
  Manifest manifest{.step = fields.count("step"),
                    .config_hash = fields.hash("config_hash"),
                    .commit = fields.words("commit"),
                    .torch_version = fields.words("torch_version")};
  const nlohmann::ordered_json& files = fields.list("files");
  if (files.size() > kMaxFiles) reject(file_name, "files", "is too long");
  std::set<std::string> names;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const Fields entry{files[i], file_name, text("files[", i, "].")};
    if (!entry.object.is_object()) reject(file_name, entry.where, "is not an object");
    manifest.files.push_back(parse_file(entry));
    if (!names.insert(manifest.files.back().name).second)
      reject(file_name, entry.path("name"), "appears twice");
  }
  return manifest;
}

}  // namespace triaccel
