#pragma once

#include <cstdint>
#include <vector>

#include "triaccel/core/saved_census.h"
#include "triaccel/core/saved_plan.h"
#include "triaccel/core/saved_statistics.h"
#include "triaccel/telemetry/records/saved_rows.h"
#include "triaccel/trainer/loop/run_parts.h"

namespace triaccel {

/// What a network's forward pass saves, and what its values look like.
struct SavedSurvey {
  SavedCensus census = {};
  std::vector<SavedStatistics> tensors = {};  // tensors_of(census), measured
};

/// Looks at one pass over the first training samples. The run's activations must not be raw.
SavedSurvey survey_saved(RunParts& parts);

/// One way to keep what was surveyed.
struct SavedSettings {
  RunConfig::Activations activations = {};
  std::int64_t samples = 1;  // of a pass
  double drop_price = 16;    // of a dropped band, over its energy: what the last steps of a run pay
  bool by_layer = false;     // coded: by the measured noise of each layer, see calibrated()
};

/// The survey with bits where they show, as a run has them: the noise that codes add to each
/// layer's gradient is measured on the samples that were surveyed, and tensors become as sensitive
/// as that tells, where it pays.
SavedSurvey calibrated(const SavedSurvey& survey, RunParts& parts, const SavedSettings& settings);

/// A plan for each of the survey's tensors: raw, without loss, coded at a ratio, or by a registered
/// codec.
std::vector<SavedPlan> plans_of(const SavedSurvey& survey, const SavedSettings& settings);

/// What becomes of every tensor under the settings, for people.
std::vector<SavedRow> saved_rows_of(const SavedSurvey& survey, const SavedSettings& settings);

}  // namespace triaccel
