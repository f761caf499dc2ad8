#include "cli/stored_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/telemetry/records/run_record.h"
#include "triaccel/trainer/config/options.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel::cli {
namespace {

namespace fs = std::filesystem;

struct Setting {
  std::string key;
  std::string value;
};

/// In the order of all_options, so that two lists match place by place.
std::vector<Setting> settings_of(const RunConfig& config) {
  std::vector<Setting> settings;
  for (const Option& option : all_options())
    settings.push_back({fmt::format("{}.{}", option.table, option.key), option.shown(config)});
  return settings;
}

bool counts(const std::string& key, const std::vector<std::string_view>& open) {
  static const std::vector<std::string_view> never = {"control.kernels", "data.root",
                                                      "model.init_from"};
  return !key.starts_with("run.") && std::ranges::find(never, key) == never.end() &&
         std::ranges::find(open, key) == open.end();
}

/// How many samples the last evaluation on a split counted; -1 without one.
std::int64_t last_evaluated(const RunMetrics& metrics, std::string_view split) {
  std::int64_t samples = -1;
  for (const EvaluationReport& report : metrics.evaluations)
    if (report.split == split) samples = report.samples;
  return samples;
}

void require_whole_evaluations(const fs::path& folder, const RunConfig& config) {
  const RunMetrics metrics = read_run_record(folder).metrics;
  const bool none_of_test = last_evaluated(metrics, "test") == 0;
  const bool too_few_held_out =
      config.data.val_split > 0 && last_evaluated(metrics, "validation") < config.data.val_split;
  if (none_of_test || too_few_held_out)
    throw NumericalFailure(text(folder.string(), ": the trained network gives losses that are not ",
                                "finite; give smaller --rates, in another --out"));
}

}  // namespace

void require_same_run(const fs::path& folder, const RunConfig& planned,
                      const std::vector<std::string_view>& open) {
  if (!holds_run(folder)) return;
  const std::vector<Setting> stored = settings_of(read_run_config(folder));
  const std::vector<Setting> wanted = settings_of(resolved(planned));
  for (std::size_t i = 0; i < stored.size(); ++i)
    require(stored[i].value == wanted[i].value || !counts(stored[i].key, open), "reproduce", "'",
            folder.string(), "' holds a run with ", stored[i].key, " = '", stored[i].value,
            "', not '", wanted[i].value, "'; choose another --out, or delete that folder");
}

RunSummary run_in(const fs::path& folder, const RunConfig& config, RunConsole& console,
                  const std::vector<std::string_view>& open) {
  require_same_run(folder, config, open);
  const RunSummary summary = holds_run(folder) ? resume_run(folder, console.hooks())
                                               : start_run(config, folder, console.hooks());
  if (summary.status == "interrupted") throw Interrupted{exit_code_of(summary)};
  require_whole_evaluations(folder, config);
  return summary;
}

}  // namespace triaccel::cli
