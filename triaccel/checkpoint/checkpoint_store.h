#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "triaccel/core/state_view.h"

namespace triaccel {

/// One file of a checkpoint: "weights.safetensors", "optimizer.safetensors", …
struct CheckpointFile {
  std::string name = {};  // lower-case letters, digits, '.', '-' and '_'
  std::vector<StateView> tensors = {};
};

/// What a checkpoint says about itself.
struct CheckpointInfo {
  std::int64_t step = 0;  // optimizer steps done
  std::uint64_t config_hash = 0;
  std::string commit = {};
  std::string torch_version = {};
  bool operator==(const CheckpointInfo&) const = default;
};

struct LoadedCheckpoint {
  CheckpointInfo info = {};
  std::map<std::string, StateMap> files = {};  // by file name, then by tensor name
  std::vector<std::string> notices = {};       // newer checkpoints that are damaged, and where
};

struct SavedCheckpoint {
  std::int64_t bytes = 0;                 // written
  std::vector<std::string> notices = {};  // old checkpoints that could not be removed
};

/// The checkpoints of one run: directories `step-<N>`, each there in full or not at all, whatever
/// moment the process or the machine dies at. Which one is the latest is computed from what
/// verifies, never read from a pointer. Whoever saves holds the run's RunLock.
class CheckpointStore {
 public:
  /// Touches nothing yet; `keep` >= 1 checkpoints stay after a save.
  explicit CheckpointStore(std::filesystem::path directory, int keep = 3);

  /// Writes a checkpoint, then removes those beyond `keep` and what killed saves left behind.
  /// Throws StorageError when it cannot be written; the earlier checkpoints are then as they were
  /// and the next save starts with fresh files.
  SavedCheckpoint save(const CheckpointInfo& info, std::span<const CheckpointFile> files);

  /// The newest checkpoint that verifies; nothing when there is no checkpoint at all. Throws
  /// StorageError when there are some but every one is damaged.
  std::optional<LoadedCheckpoint> load_latest() const;

  /// Throws StorageError when there is no such checkpoint or it is damaged.
  LoadedCheckpoint load(std::int64_t step) const;

  /// The steps of all checkpoints, damaged ones too, in ascending order.
  std::vector<std::int64_t> steps() const;

  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
  int keep_;
};

}  // namespace triaccel
