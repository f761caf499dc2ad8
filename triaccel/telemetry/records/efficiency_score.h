#pragma once

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "triaccel/telemetry/records/run_record.h"
#include "triaccel/telemetry/sink.h"

namespace triaccel {

/// The paper's efficiency score (section 4.2): accuracy in percent / (seconds per epoch * GB). The
/// paper's "memory usage (%)" is a percentage of 1 GB = 1e9 bytes; this reproduces 11 of its 12
/// printed scores. NaN if an input is unknown.
inline double efficiency_score(double accuracy_percent, double seconds_per_epoch, double bytes) {
  if (!(seconds_per_epoch > 0) || !(bytes > 0)) return std::numeric_limits<double>::quiet_NaN();
  return accuracy_percent / (seconds_per_epoch * bytes / 1e9);
}

/// Score of a run; memory is peak reserved bytes minus the resident data set.
inline double efficiency_score(const RunSummary& run) {
  return efficiency_score(run.accuracy, run.seconds_per_epoch,
                          static_cast<double>(run.peak_reserved_bytes - run.data_bytes));
}

/// Efficiency score of an epoch that ended with an evaluation.
struct EpochScore {
  double epoch = 0;
  double accuracy = 0;   // percent
  double seconds = 0;    // of training, for one epoch
  double gigabytes = 0;  // peak reserved minus the resident data set; 1e9 bytes
  double score = 0;
};

/// In order of epochs, for the split that was evaluated most often.
std::vector<EpochScore> epoch_scores(const RunRecord& run);

/// True if the score ends above its first value and the mean of the second half is above that of
/// the first, so that a single outlier does not decide.
bool rises(std::span<const EpochScore> scores);

/// "rises: 5.21 after epoch 1, 12.92 after epoch 30. Accuracy went from ...": shows which part of
/// the score changed. "" for fewer than two epochs.
std::string score_sentence(std::span<const EpochScore> scores);

}  // namespace triaccel
