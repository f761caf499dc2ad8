#include "triaccel/telemetry/records/efficiency_score.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <map>

namespace triaccel {
namespace {

std::string most_evaluated_split(const RunRecord& run) {
  std::map<std::string, int> counts;
  for (const EvaluationReport& evaluation : run.metrics.evaluations) ++counts[evaluation.split];
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? "" : most->first;
}

std::int64_t data_bytes_of(const RunRecord& run) {
  if (const RunSummary outcome = outcome_of(run); outcome.data_bytes > 0) return outcome.data_bytes;
  std::int64_t most = 0;
  for (const IntervalRecord& interval : run.metrics.intervals)
    most = std::max(
        most,
        interval.report.memory.peak_by_purpose[static_cast<std::size_t>(MemoryPurpose::Data)]);
  return most;
}

double mean_score(std::span<const EpochScore> scores) {
  double sum = 0;
  for (const EpochScore& score : scores) sum += score.score;
  return sum / static_cast<double>(scores.size());
}

}  // namespace

std::vector<EpochScore> epoch_scores(const RunRecord& run) {
  constexpr double kShortest = 0.01;  // epochs; shorter intervals are not representative
  const std::string split = most_evaluated_split(run);
  const double data_bytes = static_cast<double>(data_bytes_of(run));
  std::vector<EpochScore> scores;
  std::int64_t last_step = 0;
  double last_epoch = 0;
  for (const EvaluationReport& evaluation : run.metrics.evaluations) {
    if (evaluation.split != split || !(evaluation.epoch - last_epoch > kShortest)) continue;
    double seconds = 0;
    double bytes = 0;
    for (const IntervalRecord& interval : run.metrics.intervals) {
      const StepReport& report = interval.report;
      if (report.step <= last_step || report.step > evaluation.step) continue;
      seconds += report.seconds;
      bytes = std::max(bytes,
                       static_cast<double>(std::max(report.memory.reserved, report.memory.peak)));
    }
    EpochScore score{.epoch = evaluation.epoch,
                     .accuracy = 100 * evaluation.accuracy,
                     .seconds = seconds / (evaluation.epoch - last_epoch),
                     .gigabytes = (bytes - data_bytes) / 1e9};
    score.score = efficiency_score(score.accuracy, score.seconds, bytes - data_bytes);
    if (std::isfinite(score.score)) scores.push_back(score);
    last_step = evaluation.step;
    last_epoch = evaluation.epoch;
  }
  return scores;
}

bool rises(std::span<const EpochScore> scores) {
  if (scores.size() < 2) return false;
  const std::size_t half = scores.size() / 2;
  return scores.back().score > scores.front().score &&
         mean_score(scores.last(half)) > mean_score(scores.first(half));
}

std::string score_sentence(std::span<const EpochScore> scores) {
  if (scores.size() < 2) return "";
  const EpochScore& first = scores.front();
  const EpochScore& last = scores.back();
  return fmt::format(
      "{}: {:.4g} after epoch {:.3g}, {:.4g} after epoch {:.3g}. Accuracy went from {:.2f} % to "
      "{:.2f} %, seconds per epoch from {:.4g} to {:.4g}, memory from {:.4g} to {:.4g} GB.",
      rises(scores) ? "rises" : "does not rise", first.score, first.epoch, last.score, last.epoch,
      first.accuracy, last.accuracy, first.seconds, last.seconds, first.gigabytes, last.gigabytes);
}

}  // namespace triaccel
