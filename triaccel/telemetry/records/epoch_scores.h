#pragma once

#include <span>
#include <string>
#include <vector>

#include "triaccel/telemetry/records/run_record.h"

namespace triaccel {

/// The efficiency of the epoch that ended with an evaluation.
struct EpochScore {
  double epoch = 0;
  double accuracy = 0;   // per cent
  double seconds = 0;    // of training, for one epoch
  double gigabytes = 0;  // most reserved in it less the resident data set; 1e9 bytes
  double score = 0;
};

/// By rising epoch, from the evaluations of the split that was evaluated most often.
std::vector<EpochScore> epoch_scores(const RunRecord& run);

/// Whether the score rose: it ends above where it began, and its later half lies above its earlier
/// one, so that one lucky epoch decides nothing.
bool rises(std::span<const EpochScore> scores);

/// "rises: 5.21 after epoch 1, 12.92 after epoch 30. Accuracy went from ...": what a reader needs
/// to see which part of the score moved. "" for fewer than two epochs.
std::string score_sentence(std::span<const EpochScore> scores);

}  // namespace triaccel
