#include "triaccel/checkpoint/generations.h"

#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/formats/file_bytes.h"
#include "triaccel/formats/safetensors.h"

namespace triaccel {
namespace {

Manifest read_manifest(const Generation& generation) {
  const std::filesystem::path path = generation.path / "manifest.json";
  const std::vector<std::byte> bytes = read_file(path, kMaxManifestBytes);
  Manifest manifest =
      parse_manifest({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
  if (manifest.step != generation.step)
    throw StorageError(text(path.string(), ": field 'step' is ", manifest.step,
                            ", which does not match its directory"));
  return manifest;
}

/// Detects a truncated file before reading gigabytes of the others.
void check_sizes(const Manifest& manifest, const std::filesystem::path& directory) {
  for (const ManifestFile& file : manifest.files) {
    const std::filesystem::path path = directory / file.name;
    std::error_code code;
    const std::uintmax_t size = std::filesystem::file_size(path, code);
    if (code) throw StorageError(text(path.string(), ": cannot be read: ", code.message()));
    if (size != static_cast<std::uintmax_t>(file.sums.size))
      throw StorageError(
          text(path.string(), ": ", size, " bytes, where the manifest says ", file.sums.size));
  }
}

void check_sums(const FileSums& actual, const FileSums& expected,
                const std::filesystem::path& path) {
  const auto damaged = std::mismatch(actual.chunks.begin(), actual.chunks.end(),
                                     expected.chunks.begin(), expected.chunks.end())
                           .first;
  if (damaged != actual.chunks.end()) {
    const std::int64_t chunk = damaged - actual.chunks.begin();
    const std::int64_t begin = chunk * kManifestChunkBytes;
    throw StorageError(text(path.string(), ": chunk ", chunk, " (bytes ", begin, " to ",
                            std::min(begin + kManifestChunkBytes, actual.size) - 1,
                            ") is damaged: its checksum does not match the manifest"));
  }
  if (actual != expected)
    throw StorageError(text(path.string(), ": its checksum does not match the manifest"));
}

StateMap read_tensors(const std::filesystem::path& path, const FileSums& expected) {
  auto bytes = std::make_shared<const std::vector<std::byte>>(
      read_file(path, static_cast<std::uint64_t>(expected.size)));
  check_sums(sum_of(*bytes), expected, path);
  TensorFile file = parse_safetensors(std::move(bytes), path.string());
  StateMap tensors;
  for (StateView& tensor : file.tensors) {
    std::string name = tensor.name;
    tensors.emplace(std::move(name), std::move(tensor));
  }
  return tensors;
}

}  // namespace

LoadedCheckpoint read_checkpoint(const Generation& generation) {
  try {
    const Manifest manifest = read_manifest(generation);
    check_sizes(manifest, generation.path);
    LoadedCheckpoint loaded{.info = {.step = manifest.step,
                                     .config_hash = manifest.config_hash,
                                     .commit = manifest.commit,
                                     .torch_version = manifest.torch_version}};
    for (const ManifestFile& file : manifest.files)
      loaded.files.emplace(file.name, read_tensors(generation.path / file.name, file.sums));
    return loaded;
  } catch (const DataError& error) {
    throw StorageError(error.what());
  }
}

bool looks_complete(const Generation& generation) {
  try {
    const Manifest manifest = read_manifest(generation);
    check_sizes(manifest, generation.path);
    return true;
  } catch (const StorageError&) {
    return false;
  } catch (const DataError&) {
    return false;
  }
}

}  // namespace triaccel
