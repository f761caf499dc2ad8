#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "triaccel/checkpoint/checkpoint_store.h"
#include "triaccel/formats/manifest.h"

namespace triaccel {

/// The directory of a checkpoint. While a save replaces a checkpoint of the same step, the earlier
/// one is kept as `step-<N>.old` and used if the save is interrupted.
struct Generation {
  std::int64_t step = 0;
  bool replaced = false;
  std::filesystem::path path = {};
};

std::filesystem::path generation_path(const std::filesystem::path& directory, std::int64_t step);

/// All checkpoints in a directory, newest first; empty if the directory does not exist.
std::vector<Generation> list_generations(const std::filesystem::path& directory);

/// Leftovers of interrupted saves or removals, which are never read: directories that hold nothing
/// but files of these names. A directory with other files belongs to the user.
std::vector<std::filesystem::path> list_leftovers(const std::filesystem::path& directory,
                                                  const std::set<std::string>& files);

/// `path`.old and the first of `path`.tmp, `path`.1.tmp, … that does not exist.
std::filesystem::path replaced_path(const std::filesystem::path& path);
std::filesystem::path leftover_path(const std::filesystem::path& path);

/// Reads and verifies one checkpoint; throws StorageError naming the damaged file and chunk.
LoadedCheckpoint read_checkpoint(const Generation& generation);

/// Quick check without reading the data: the manifest verifies and all files have their sizes.
bool looks_complete(const Generation& generation);

}  // namespace triaccel
