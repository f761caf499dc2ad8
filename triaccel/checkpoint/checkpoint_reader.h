#pragma once

#include "triaccel/checkpoint/checkpoint_store.h"
#include "triaccel/checkpoint/generations.h"
#include "triaccel/formats/manifest.h"

namespace triaccel {

/// Reads and verifies one checkpoint; throws StorageError, which names the file and the chunk that
/// is damaged.
LoadedCheckpoint read_checkpoint(const Generation& generation);

/// Whether the manifest verifies and every file has its size: all that can be said without reading
/// the whole checkpoint.
bool looks_complete(const Generation& generation);

}  // namespace triaccel
