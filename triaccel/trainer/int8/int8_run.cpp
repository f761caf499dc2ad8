#include "triaccel/trainer/int8/int8_run.h"

#include <optional>
#include <string>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/telemetry/records/metrics_files.h"
#include "triaccel/telemetry/records/summary.h"
#include "triaccel/telemetry/report/html_report.h"
#include "triaccel/trainer/config/int8_options.h"
#include "triaccel/trainer/int8/int8_training.h"
#include "triaccel/trainer/int8/int8_weights.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/loop/training_loop.h"

namespace triaccel {

namespace fs = std::filesystem;

RunSummary train_int8_in(const fs::path& directory, const RunConfig& config,
                         const TrainingHooks& hooks) {
  CheckpointStore store(directory / kCheckpointFolder, static_cast<int>(config.run.keep));
  TrainingHooks with_files = hooks;
  Int8Training training(config, with_files);
  if (!holds_run(directory)) write_run_config(directory, config);
  const std::optional<LoadedCheckpoint> checkpoint = store.load_latest();
  if (checkpoint) training.restore(*checkpoint);
  MetricsFiles files(directory, {.resume_after_step = checkpoint ? training.step() : -1});
  with_files.sinks.push_back(&files);
  if (checkpoint)
    for (const std::string& message : checkpoint->notices)
      for (Sink* sink : with_files.sinks) sink->notice(message);
  const RunSummary summary = training.run(&store);
  save_int8_weights(directory / kInt8WeightsFile, training.state());
  const std::vector<std::int8_t>& slopes = training.slopes();
  write_atomically(directory / kSlopesFile,
                   {reinterpret_cast<const char*>(slopes.data()), slopes.size()});
  write_summary(directory / kSummaryFile, summary);
  for (Sink* sink : with_files.sinks) sink->finish(summary);
  const std::vector<RunRecord> records = {read_run_record(directory)};
  write_html_report(directory / kReportFile, records, config.run.name);
  return summary;
}

EvaluationReport evaluate_int8_run(const fs::path& directory, const RunConfig& config) {
  const auto checkpoint = CheckpointStore(directory / kCheckpointFolder).load_latest();
  require(checkpoint.has_value(), "eval", "'", directory.string(),
          "' has no checkpoint yet; let it train, or 'triaccel resume' it");
  const TrainingHooks none;
  Int8Training training(config, none);
  training.restore(*checkpoint);
  return training.evaluate_split(/*validation=*/false);
}

EvaluationReport evaluate_int8_weights(const RunConfig& config) {
  const TrainingHooks none;
  return Int8Training(config, none).evaluate_split(/*validation=*/false);
}

std::vector<std::int8_t> read_slopes(const fs::path& run_directory) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  const std::string bytes = read_text_file(run_directory / kSlopesFile, most);
  const std::vector<std::int8_t> slopes(bytes.begin(), bytes.end());  // on Arm a char has no sign
  for (const std::int8_t slope : slopes)
    if (slope < -int8::kMostSlope || slope > int8::kMostSlope)
      throw StorageError(text((run_directory / kSlopesFile).string(),
                              ": a byte that is no slope; is the file damaged?"));
  return slopes;
}

void redo_int8(int8::State& first, const RunConfig& config, std::int64_t samples_per_epoch,
               std::span<const std::int8_t> slopes) {
  const Int8Options options = int8_options(config, first.network, samples_per_epoch);
  for (const std::int8_t slope : slopes) int8::replay_step(first, slope, options.at(first.step));
}

}  // namespace triaccel
