#include "triaccel/trainer/loop/run_directory.h"

#include <algorithm>
#include <sstream>

#include "triaccel/base/error.h"
#include "triaccel/checkpoint/checkpoint_store.h"
#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/telemetry/records/metrics_files.h"
#include "triaccel/telemetry/records/summary.h"
#include "triaccel/telemetry/records/zeroth_order_file.h"
#include "triaccel/trainer/config/config_text.h"
#include "triaccel/trainer/int8/int8_engine.h"
#include "triaccel/trainer/loop/run_budget.h"

namespace triaccel {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kMostConfigBytes = 1 << 20;  // ours has a few kilobytes
constexpr const char* kEarlierHashesFile = "earlier_configs.txt";

/// Also a link that leads nowhere, which would be written through.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

bool same_content(const fs::path& a, const fs::path& b) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  return read_text_file(a, most) == read_text_file(b, most);
}

/// Whether what lies there was left by a run of ours that was killed before it began.
bool is_leftover(const fs::path& path, const RunConfig& config) {
  std::error_code error;
  const std::string name = path.filename().string();
  if (name == kCheckpointFolder) return fs::is_directory(path, error) && fs::is_empty(path, error);
  if (!fs::is_regular_file(fs::symlink_status(path, error))) return false;
  if (name == kReplayedPlansFile)
    return !config.control.replay.empty() && same_content(path, config.control.replay);
  if (name != ".lock") return false;
  const std::string holder = read_text_file(path, kMostConfigBytes);
  return holder.empty() || holder.starts_with("process ");
}

std::vector<std::uint64_t> read_earlier_hashes(const fs::path& directory) {
  std::vector<std::uint64_t> hashes;
  const fs::path file = directory / kEarlierHashesFile;
  if (!is_there(file)) return hashes;
  std::istringstream words(read_text_file(file, kMostConfigBytes));
  for (std::uint64_t hash = 0; words >> hash;) hashes.push_back(hash);
  return hashes;
}

}  // namespace

bool holds_run(const fs::path& directory) {
  std::error_code error;  // a path that cannot be followed leads to no run
  return fs::exists(directory / kConfigFile, error);
}

void require_no_files_in_the_way(const fs::path& directory, const RunConfig& config) {
  require(!holds_run(directory), "--out", "'", directory.string(),
          "' already contains a run; continue it with 'triaccel resume ", directory.string(),
          "', or choose another folder");
  for (const char* name : {".lock", kReplayedPlansFile, kCheckpointFolder, kMetricsJsonl,
                           kMetricsCsv, kPlansJsonl, kSummaryFile, kReportFile, kZerothOrderCsv,
                           kSlopesFile, kInt8WeightsFile, kEarlierHashesFile, kBudgetFile}) {
    const fs::path path = directory / name;
    require(!is_there(path) || is_leftover(path, config), "--out", "'", path.string(),
            "' is not part of a run and would be overwritten; choose another folder");
  }
}

fs::path weights_named(const fs::path& path, std::vector<std::string>& notices) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  if (!holds_run(path)) return path / kInt8WeightsFile;  // of a checkpoint
  const CheckpointStore store(path / kCheckpointFolder);
  const auto newest = store.load_latest();
  require(newest.has_value(), "--init-from", "the run '", path.string(), "' has no checkpoint yet");
  notices = newest->notices;
  return store.directory() / text("step-", newest->info.step) / kInt8WeightsFile;
}

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
  const fs::path file = directory / kConfigFile;
  RunConfig config;
  apply_toml(config, read_text_file(file, kMostConfigBytes), file.string());
  config.run.earlier_hashes = read_earlier_hashes(directory);
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

RunConfig with_length(RunConfig config, const RunLength& length) {
  config.run.earlier_hashes.push_back(config_hash(config));
  if (length.steps == 0) config.train.epochs = length.epochs;
  config.train.steps = length.steps;
  return resolved(config);
}

void write_length(const fs::path& directory, const RunConfig& config) {
  RunConfig stored = read_run_config(directory);
  stored.train = config.train;
  // First the hashes: should the second write fail, they do no harm.
  std::string hashes;
  for (const std::uint64_t hash : config.run.earlier_hashes) hashes += text(hash, "\n");
  write_atomically(directory / kEarlierHashesFile, hashes);
  write_run_config(directory, stored);
}

void take_replayed_kernels(RunConfig& config) {
  if (config.control.replay.empty() || config.control.kernels != "auto") return;
  const fs::path source = fs::path(config.control.replay).parent_path();
  if (!holds_run(source.empty() ? "." : source)) return;
  const RunConfig replayed = read_run_config(source.empty() ? "." : source);
  if (replayed.model.name == config.model.name && replayed.train.method == config.train.method)
    config.control.kernels = replayed.control.kernels;
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
  std::error_code error;
  require(fs::is_directory(root, error), "ls", "'", root.string(), "' is not a folder");
  constexpr int deepest = 2;  // runs/<name>, and runs/demo/<method>
  std::vector<fs::path> runs;
  if (holds_run(root)) runs.push_back(root);
  const fs::directory_iterator readable_root(root, error);
  if (error) throw StorageError(text(root.string(), ": cannot list: ", error.message()));
  const auto readable = fs::directory_options::skip_permission_denied;
  for (auto entry = fs::recursive_directory_iterator(root, readable, error);
       !error && entry != fs::end(entry); entry.increment(error)) {
    if (!entry->is_directory(error)) continue;
    if (holds_run(entry->path())) runs.push_back(entry->path());
    if (holds_run(entry->path()) || entry.depth() + 1 >= deepest) entry.disable_recursion_pending();
  }
  if (error) throw StorageError(text(root.string(), ": cannot list: ", error.message()));
  std::ranges::sort(runs);
  return runs;
}

}  // namespace triaccel
