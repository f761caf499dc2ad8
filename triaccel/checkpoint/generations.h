#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace triaccel {

/// One checkpoint's directory. While a save replaces a checkpoint of the same step, the earlier one
/// stands beside it as `step-<N>.old`, and serves when the save dies there.
struct Generation {
  std::int64_t step = 0;
  bool replaced = false;
  std::filesystem::path path = {};
};

std::filesystem::path generation_path(const std::filesystem::path& directory, std::int64_t step);

/// All checkpoints in a directory, the newest first; none when there is no such directory.
std::vector<Generation> list_generations(const std::filesystem::path& directory);

/// What a save or a removal that was cut short left behind; nobody reads it.
std::vector<std::filesystem::path> list_leftovers(const std::filesystem::path& directory);

/// `path`.old and `path`.tmp.
std::filesystem::path replaced_path(const std::filesystem::path& path);
std::filesystem::path leftover_path(const std::filesystem::path& path);

}  // namespace triaccel
