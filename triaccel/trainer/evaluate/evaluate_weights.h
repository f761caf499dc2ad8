#pragma once

#include "triaccel/telemetry/sink.h"
#include "triaccel/trainer/config/run_config.h"

namespace triaccel {

/// The weights a run of this configuration would start from (config.model.init_from, or fresh ones)
/// on its test set; nothing is trained or written.
EvaluationReport evaluate_weights(const RunConfig& config);

}  // namespace triaccel
