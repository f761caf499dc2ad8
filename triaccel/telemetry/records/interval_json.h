#pragma once

#include <nlohmann/json.hpp>

#include "triaccel/telemetry/records/json_fields.h"
#include "triaccel/telemetry/records/metrics_record.h"

namespace triaccel {

/// An interval as a line of metrics.jsonl. Per layer: "layers" holds [count, sum, sum of squares,
/// absolute maximum, nonfinite, fp16 zeros, fp16 subnormals, fp16 scale] of the gradients, and
/// "curvature" [[eigenvalues], gradient noise, gradient signal].
nlohmann::ordered_json interval_json(const IntervalRecord& record);

/// Reads it back; what an older version did not write keeps its default.
IntervalRecord interval_from(const JsonFields& fields);

}  // namespace triaccel
