#include "triaccel/trainer/loop/run_directory.h"

#include <algorithm>

#include "triaccel/base/error.h"
#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/trainer/config/config_text.h"

namespace triaccel {

namespace fs = std::filesystem;

bool holds_run(const fs::path& directory) { return fs::exists(directory / kConfigFile); }

fs::path new_run_directory(const RunConfig& config) {
  if (!config.run.out.empty()) return config.run.out;
  const fs::path first = fs::path("runs") / config.run.name;
  fs::path candidate = first;
  for (int number = 2; holds_run(candidate); ++number)
    candidate = first.string() + "-" + std::to_string(number);
  return candidate;
}

RunConfig read_run_config(const fs::path& directory) {
  require(holds_run(directory), "run", "'", directory.string(), "' holds no run (no ", kConfigFile,
          "); 'triaccel ls' lists the runs below a folder");
  constexpr std::int64_t most = 1 << 20;  // ours has a few kilobytes
  const fs::path file = directory / kConfigFile;
  RunConfig config;
  apply_toml(config, read_text_file(file, most), file.string());
  config.run.out = directory.string();
  // Our own copy is named without its folder.
  if (config.control.replay == kReplayedPlansFile)
    config.control.replay = (directory / kReplayedPlansFile).string();
  return config;
}

void write_run_config(const fs::path& directory, const RunConfig& config) {
  RunConfig stored = config;
  if (stored.control.replay == directory / kReplayedPlansFile)
    stored.control.replay = kReplayedPlansFile;
  write_atomically(directory / kConfigFile, to_toml(stored));
}

void keep_replayed_plans(const fs::path& directory, RunConfig& config) {
  if (config.control.replay.empty()) return;
  const fs::path copy = directory / kReplayedPlansFile;
  std::error_code error;
  fs::copy_file(config.control.replay, copy, fs::copy_options::overwrite_existing, error);
  if (error)
    throw StorageError(
        text(copy.string(), ": cannot copy '", config.control.replay, "' here: ", error.message()));
  config.control.replay = copy.string();
}

std::vector<fs::path> list_runs(const fs::path& root) {
  require(fs::is_directory(root), "ls", "'", root.string(), "' is no folder");
  constexpr int deepest = 2;  // runs/<name>, and runs/demo/<method>
  std::vector<fs::path> runs;
  if (holds_run(root)) runs.push_back(root);
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::end(entry); ++entry) {
    if (!entry->is_directory()) continue;
    if (holds_run(entry->path())) runs.push_back(entry->path());
    if (holds_run(entry->path()) || entry.depth() + 1 >= deepest) entry.disable_recursion_pending();
  }
  std::ranges::sort(runs);
  return runs;
}

}  // namespace triaccel
