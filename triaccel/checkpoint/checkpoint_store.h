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

/// Metadata of a checkpoint.
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
  std::vector<std::string> notices = {};       // damage found in newer checkpoints
};

struct SavedCheckpoint {
  std::int64_t bytes = 0;                 // written
  std::vector<std::string> notices = {};  // old checkpoints that could not be removed
};

/// The checkpoints of one run: directories `step-<N>`, written atomically even if the process or
/// machine dies. The latest is determined by verification, not by a pointer file. The caller of
/// save() holds the run's RunLock.
class CheckpointStore {
 public:
  /// Does not access the disk; `keep` >= 1 checkpoints remain after a save.
  explicit CheckpointStore(std::filesystem::path directory, int keep = 3);

  /// Writes a checkpoint, then removes those beyond `keep` and leftovers of interrupted saves.
  /// Throws StorageError if it cannot be written; earlier checkpoints are then unchanged.
  SavedCheckpoint save(const CheckpointInfo& info, std::span<const CheckpointFile> files);

  /// The newest checkpoint that verifies; nothing if there are none. Throws StorageError if all are
  /// damaged.
  std::optional<LoadedCheckpoint> load_latest() const;

  /// Throws StorageError if the checkpoint does not exist or is damaged.
  LoadedCheckpoint load(std::int64_t step) const;

  /// The steps of all checkpoints, including damaged ones, in ascending order.
  std::vector<std::int64_t> steps() const;

  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
  int keep_;
};

}  // namespace triaccel
