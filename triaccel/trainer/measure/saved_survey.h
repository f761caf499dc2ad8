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

/// Profiles one pass over the first training samples. The run's activations must not be raw.
SavedSurvey survey_saved(RunParts& parts);

/// One way to save the profiled tensors.
struct SavedSettings {
  RunConfig::Activations activations = {};
  std::int64_t samples = 1;  // of a pass
  bool by_layer = false;     // compressed: by the measured noise of each layer, see calibrated()
};

/// The survey with sensitivities corrected as a run does: by the noise that compression adds to
/// each layer's gradient, measured on the same samples, where that lowers the gradient error.
SavedSurvey calibrated(const SavedSurvey& survey, RunParts& parts, const SavedSettings& settings);

/// A plan for each of the survey's tensors: raw, lossless, compressed to a ratio, or by a
/// registered codec.
std::vector<SavedPlan> plans_of(const SavedSurvey& survey, const SavedSettings& settings);

/// How every tensor is saved under the settings, for display.
std::vector<SavedRow> saved_rows_of(const SavedSurvey& survey, const SavedSettings& settings);

}  // namespace triaccel
