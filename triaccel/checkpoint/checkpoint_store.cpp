#include "triaccel/checkpoint/checkpoint_store.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/checkpoint/generations.h"
#include "triaccel/formats/file_writer.h"
#include "triaccel/formats/manifest.h"
#include "triaccel/formats/safetensors.h"

namespace triaccel {
namespace {

constexpr std::string_view kSave = "CheckpointStore::save";
constexpr std::int64_t kHeaderRoom = std::int64_t{1} << 20;  // headers, manifest, directory

void check_names(std::span<const CheckpointFile> files) {
  std::set<std::string_view> names;
  for (const CheckpointFile& file : files) {
    require(is_manifest_file_name(file.name), kSave, "not a file name: '", file.name, "'");
    require(names.insert(file.name).second, kSave, "duplicate file '", file.name, "'");
  }
}

/// Creates directories and syncs each new entry to disk.
void make_directories(const std::filesystem::path& directory) {
  std::error_code code;
  if (directory.empty() || std::filesystem::is_directory(directory, code)) return;
  const std::filesystem::path parent = directory.parent_path();
  make_directories(parent);
  std::filesystem::create_directory(directory, code);
  if (code) throw StorageError(text(directory.string(), ": cannot create: ", code.message()));
  sync_directory(parent.empty() ? "." : parent);
}

void check_space(const std::filesystem::path& directory, std::span<const CheckpointFile> files) {
  std::int64_t needed = kHeaderRoom;
  for (const CheckpointFile& file : files)
    for (const StateView& tensor : file.tensors)
      needed += static_cast<std::int64_t>(tensor.bytes.size());
  struct statvfs disk = {};
  if (::statvfs(directory.c_str(), &disk) != 0 || disk.f_blocks == 0) return;  // unknown
  const auto blocks = static_cast<std::int64_t>(disk.f_bavail);
  const auto block_bytes = static_cast<std::int64_t>(disk.f_frsize);
  if (blocks < needed / block_bytes + 1)
    throw StorageError(text(directory.string(), ": a checkpoint needs ", byte_text(needed),
                            " but only ", byte_text(blocks * block_bytes),
                            " are free; free some space or keep fewer checkpoints"));
}

bool directory_exists(const std::filesystem::path& path) {
  std::error_code ignored;  // an error here surfaces in the rename that follows
  return std::filesystem::exists(path, ignored);
}

/// Removes a directory; if interrupted, it leaves a leftover, never a partial checkpoint.
void discard(const std::filesystem::path& path, std::vector<std::string>& notices) {
  std::error_code code;
  std::filesystem::path leftover = path;
  if (path.extension() != ".tmp") {
    leftover = leftover_path(path);
    std::filesystem::rename(path, leftover, code);
  }
  if (!code) std::filesystem::remove_all(leftover, code);
  if (code) notices.push_back(text(path.string(), ": cannot remove: ", code.message()));
}

ManifestFile write_file(const std::filesystem::path& directory, const CheckpointFile& file) {
  FileWriter writer(directory / file.name);
  FileSummer summer;
  write_safetensors(
      [&](std::span<const std::byte> bytes) {
        writer.write(bytes);
        summer.add(bytes);
      },
      file.tensors);
  writer.finish();
  return {.name = file.name, .sums = summer.sums()};
}

/// Writes the checkpoint to a new `directory` and syncs it to disk.
std::int64_t write_checkpoint(const std::filesystem::path& directory, const CheckpointInfo& info,
                              std::span<const CheckpointFile> files) {
  std::error_code code;
  if (!std::filesystem::create_directory(directory, code))
    throw StorageError(
        text(directory.string(), ": cannot create: ", code ? code.message() : "it already exists"));
  Manifest manifest{.step = info.step,
                    .config_hash = info.config_hash,
                    .commit = info.commit,
                    .torch_version = info.torch_version};
  std::int64_t bytes = 0;
  for (const CheckpointFile& file : files) {
    manifest.files.push_back(write_file(directory, file));
    bytes += manifest.files.back().sums.size;
  }
  const std::string written = manifest_text(manifest);
  FileWriter writer(directory / "manifest.json");
  writer.write(std::as_bytes(std::span(written)));
  writer.finish();
  sync_directory(directory);
  return bytes + static_cast<std::int64_t>(written.size());
}

/// Renames a complete checkpoint into place; one of the same step is renamed first and stays
/// readable.
void publish(const std::filesystem::path& written, const std::filesystem::path& name,
             std::vector<std::string>& notices) {
  if (directory_exists(name)) {
    const std::filesystem::path replaced = replaced_path(name);
    if (directory_exists(replaced)) discard(replaced, notices);
    rename_path(name, replaced);
  }
  rename_path(written, name);
  sync_directory(name.parent_path());
}

/// Keeps the `keep` newest complete checkpoints, and always `saved`.
void prune(const std::filesystem::path& directory, std::int64_t saved, int keep,
           std::vector<std::string>& notices) try {
  int kept = 0;
  for (const Generation& generation : list_generations(directory)) {
    const bool same_step = generation.step == saved;
    const bool is_saved = same_step && !generation.replaced;
    if (is_saved || (!same_step && kept < keep)) {
      if (is_saved || looks_complete(generation)) ++kept;
    } else {
      discard(generation.path, notices);
    }
  }
} catch (const StorageError& error) {
  notices.push_back(error.what());  // the new checkpoint is not affected
}

/// The first checkpoint that verifies; errors of those before it are added to `damaged` and to its
/// notices.
std::optional<LoadedCheckpoint> first_whole(std::span<const Generation> generations,
                                            std::vector<std::string>& damaged) {
  for (const Generation& generation : generations) {
    try {
      LoadedCheckpoint loaded = read_checkpoint(generation);
      for (const std::string& error : damaged)
        loaded.notices.push_back(text(error, "; using the checkpoint of step ", generation.step));
      return loaded;
    } catch (const StorageError& error) {
      damaged.push_back(error.what());
    }
  }
  return std::nullopt;
}

}  // namespace

CheckpointStore::CheckpointStore(std::filesystem::path directory, int keep)
    : directory_(std::move(directory)), keep_(keep) {
  require(keep >= 1, "CheckpointStore", "keep must be at least 1, got ", keep);
}

SavedCheckpoint CheckpointStore::save(const CheckpointInfo& info,
                                      std::span<const CheckpointFile> files) {
  require(info.step >= 0, kSave, "step must not be negative, got ", info.step);
  check_names(files);
  make_directories(directory_);
  SavedCheckpoint saved;
  std::set<std::string> names = {"manifest.json"};
  for (const CheckpointFile& file : files) names.insert(file.name);
  for (const std::filesystem::path& leftover : list_leftovers(directory_, names))
    discard(leftover, saved.notices);
  check_space(directory_, files);

  const std::filesystem::path name = generation_path(directory_, info.step);
  const std::filesystem::path unfinished = leftover_path(name);
  try {
    saved.bytes = write_checkpoint(unfinished, info, files);
    publish(unfinished, name, saved.notices);
  } catch (...) {
    std::vector<std::string> ignored;
    discard(unfinished, ignored);
    throw;
  }
  prune(directory_, info.step, keep_, saved.notices);
  return saved;
}

std::optional<LoadedCheckpoint> CheckpointStore::load_latest() const {
  std::vector<std::string> damaged;
  std::optional<LoadedCheckpoint> loaded = first_whole(list_generations(directory_), damaged);
  if (loaded || damaged.empty()) return loaded;
  std::string all = text(directory_.string(), ": all checkpoints are damaged");
  for (const std::string& one : damaged) all += "; " + one;
  throw StorageError(all);
}

LoadedCheckpoint CheckpointStore::load(std::int64_t step) const {
  std::vector<Generation> generations = list_generations(directory_);
  std::erase_if(generations, [&](const Generation& one) { return one.step != step; });
  std::vector<std::string> damaged;
  if (auto loaded = first_whole(generations, damaged)) return *std::move(loaded);
  if (!damaged.empty()) throw StorageError(damaged.front());
  std::string there;
  for (const std::int64_t one : steps()) there += text(" ", one);
  throw StorageError(
      text(directory_.string(), ": no checkpoint of step ", step,
           there.empty() ? "; there are no checkpoints" : "; available steps:", there));
}

std::vector<std::int64_t> CheckpointStore::steps() const {
  std::set<std::int64_t> steps;
  for (const Generation& generation : list_generations(directory_)) steps.insert(generation.step);
  return {steps.begin(), steps.end()};
}

}  // namespace triaccel
