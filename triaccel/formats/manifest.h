#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/formats/hash.h"

namespace triaccel {

inline constexpr std::int64_t kManifestChunkBytes = std::int64_t{4} << 20;
inline constexpr std::int64_t kMaxManifestBytes = std::int64_t{16} << 20;

/// Size and checksums of a file, in total and per 4 MiB chunk.
struct FileSums {
  std::int64_t size = 0;  // bytes
  std::uint64_t xxh3 = 0;
  std::vector<std::uint64_t> chunks = {};  // the last may be short; empty for an empty file
  bool operator==(const FileSums&) const = default;
};

/// Computes the checksums of a file incrementally.
class FileSummer {
 public:
  void add(std::span<const std::byte> bytes);
  FileSums sums() const;

 private:
  Xxh3 whole_;
  Xxh3 chunk_;
  FileSums done_;  // without the current chunk
};

FileSums sum_of(std::span<const std::byte> bytes);

/// A plain file name: no path, not hidden, not the manifest itself.
bool is_manifest_file_name(std::string_view name);

struct ManifestFile {
  std::string name = {};
  FileSums sums = {};
  bool operator==(const ManifestFile&) const = default;
};

/// The content of a checkpoint; the only file a reader trusts.
struct Manifest {
  std::int64_t step = 0;
  std::uint64_t config_hash = 0;
  std::string commit = {};         // of this code
  std::string torch_version = {};  // that wrote the checkpoint
  std::vector<ManifestFile> files = {};
  bool operator==(const Manifest&) const = default;
};

/// The manifest as JSON with its own checksum.
std::string manifest_text(const Manifest& manifest);

/// Closes a JSON object with a checksum of its text; `open_object` lacks the final "}".
std::string seal_manifest(std::string_view open_object);

/// Parses exactly the output of manifest_text; throws StorageError naming the file and the field.
Manifest parse_manifest(std::string_view written, std::string_view file_name);

}  // namespace triaccel
