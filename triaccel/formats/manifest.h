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

/// How long a file is and what its bytes add up to, as a whole and for each 4 MiB.
struct FileSums {
  std::int64_t size = 0;  // bytes
  std::uint64_t xxh3 = 0;
  std::vector<std::uint64_t> chunks = {};  // the last one may be short; none for an empty file
  bool operator==(const FileSums&) const = default;
};

/// Sums up a file that comes in pieces.
class FileSummer {
 public:
  void add(std::span<const std::byte> bytes);
  FileSums sums() const;

 private:
  Xxh3 whole_;
  Xxh3 chunk_;
  FileSums done_;  // without the chunk that is still filling
};

FileSums sum_of(std::span<const std::byte> bytes);

/// A plain name: it cannot leave the checkpoint's directory, hide, or stand for the manifest.
bool is_manifest_file_name(std::string_view name);

struct ManifestFile {
  std::string name = {};
  FileSums sums = {};
  bool operator==(const ManifestFile&) const = default;
};

/// What a checkpoint consists of; the only thing a reader trusts.
struct Manifest {
  std::int64_t step = 0;
  std::uint64_t config_hash = 0;
  std::string commit = {};         // of this code
  std::string torch_version = {};  // that wrote it
  std::vector<ManifestFile> files = {};
  bool operator==(const Manifest&) const = default;
};

/// The manifest as JSON that carries its own sum.
std::string manifest_text(const Manifest& manifest);

/// Closes a JSON object with the sum over what stands before it; `open_object` lacks its "}".
std::string seal_manifest(std::string_view open_object);

/// Takes what manifest_text wrote and nothing else; throws StorageError, which names the file and
/// the field at fault.
Manifest parse_manifest(std::string_view written, std::string_view file_name);

}  // namespace triaccel
