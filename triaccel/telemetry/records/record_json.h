#pragma once

#include <nlohmann/json.hpp>

#include "triaccel/telemetry/records/json_fields.h"
#include "triaccel/telemetry/records/metrics_record.h"
#include "triaccel/telemetry/sink.h"

namespace triaccel {

/// An interval as a line of metrics.jsonl. Per layer: "layers" holds [count, sum, sum of squares,
/// absolute maximum, nonfinite, fp16 zeros, fp16 subnormals, fp16 scale] of the gradients, and
/// "curvature" [[eigenvalues], gradient noise, gradient signal].
nlohmann::ordered_json interval_json(const IntervalRecord& record);

/// Reads it back; fields missing in files of older versions keep their defaults.
IntervalRecord interval_from(const JsonFields& fields);

/// Calls `field(key, member)` for every field of a summary: the list shared by writing and reading.
template <typename Summary, typename Field>
void for_each_summary_field(Summary& summary, Field&& field) {
  field("status", summary.status);
  field("reason", summary.reason);
  field("process", summary.process);
  field("heartbeat", summary.heartbeat);
  field("method", summary.method);
  field("model", summary.model);
  field("stem", summary.stem);
  field("data", summary.data);
  field("seed", summary.seed);
  field("accuracy", summary.accuracy);
  field("loss", summary.loss);
  field("best_accuracy", summary.best_accuracy);
  field("epochs", summary.epochs);
  field("seconds", summary.seconds);
  field("seconds_per_epoch", summary.seconds_per_epoch);
  field("score", summary.score);
  field("samples", summary.samples);
  field("steps", summary.steps);
  field("peak_bytes", summary.peak_bytes);
  field("peak_reserved_bytes", summary.peak_reserved_bytes);
  field("data_bytes", summary.data_bytes);
  field("host_data_bytes", summary.host_data_bytes);
  field("host_state_bytes", summary.host_state_bytes);
  field("host_activation_bytes", summary.host_activation_bytes);
  field("predicted_bytes", summary.predicted_bytes);
  field("budget_bytes", summary.budget_bytes);
  field("batch_final", summary.batch_final);
  field("batch_largest", summary.batch_largest);
  field("skipped_steps", summary.skipped_steps);
  field("memory_retries", summary.memory_retries);
  field("rollbacks", summary.rollbacks);
  field("plan_changes", summary.plan_changes);
  field("curvature_probes", summary.curvature_probes);
  field("graph_replays", summary.graph_replays);
  field("graph_captures", summary.graph_captures);
  field("graph_capture_seconds", summary.graph_capture_seconds);
  field("control_seconds", summary.control_seconds);
  field("compression_noise", summary.compression_noise);
  field("compression_noise_by_layer", summary.compression_noise_by_layer);
  field("layers_fp32", summary.layers_fp32);
  field("layers_bf16", summary.layers_bf16);
  field("layers_fp16", summary.layers_fp16);
  field("parameters", summary.parameters);
  field("class_names", summary.class_names);
  field("class_accuracies", summary.class_accuracies);
  field("device", summary.device);
  field("device_type", summary.device_type);
  field("commit", summary.commit);
}

inline void write_summary_fields(nlohmann::ordered_json& json, const RunSummary& summary) {
  for_each_summary_field(summary, [&](const char* key, const auto& value) { json[key] = value; });
  if (summary.reason.empty()) json.erase("reason");
  if (summary.process == 0) json.erase("process");
  if (summary.heartbeat.empty()) json.erase("heartbeat");
  if (summary.class_names.empty()) json.erase("class_names");
  if (summary.class_accuracies.empty()) json.erase("class_accuracies");
}

inline RunSummary read_summary_fields(const JsonFields& fields) {
  RunSummary summary;
  // As earlier versions called them.
  fields.read("code_noise", summary.compression_noise);
  fields.read("code_noise_by_layer", summary.compression_noise_by_layer);
  for_each_summary_field(summary, [&](const char* key, auto& value) { fields.read(key, value); });
  if (summary.status == "interrupted") summary.status = "stopped";
  if (summary.status == "stopped early") {
    summary.reason = summary.status;
    summary.status = "finished";
  }
  return summary;
}

}  // namespace triaccel
