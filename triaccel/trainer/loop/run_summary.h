#pragma once

#include <optional>
#include <string>

#include "triaccel/core/step_plan.h"
#include "triaccel/telemetry/sink.h"
#include "triaccel/trainer/config/run_config.h"
#include "triaccel/trainer/loop/run_compression.h"
#include "triaccel/trainer/loop/run_parts.h"
#include "triaccel/trainer/loop/run_progress.h"

namespace triaccel {

/// What a run has come to. `last` is its last evaluation; without one accuracy and loss are not
/// known. `compression`: null where autograd keeps what it saves.
RunSummary run_summary(const RunConfig& config, const RunParts& parts, const RunProgress& progress,
                       const RunCompression* compression, const StepPlan& plan, std::string status,
                       const std::optional<EvaluationReport>& last);

}  // namespace triaccel
