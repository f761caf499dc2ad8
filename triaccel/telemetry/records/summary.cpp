#include "triaccel/telemetry/records/summary.h"

#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/telemetry/records/record_json.h"

namespace triaccel {
namespace {

constexpr std::int64_t kMaxSummaryBytes = std::int64_t{1} << 28;  // of a million classes

}  // namespace

std::string to_json(const RunSummary& summary) {
  nlohmann::ordered_json json;
  write_summary_fields(json, summary);
  return dump_line(json);
}

RunSummary summary_from_json(std::string_view json, std::string_view where) {
  const nlohmann::json parsed = JsonFields::parse(json, where);
  return read_summary_fields({parsed, where});
}

void write_summary(const std::filesystem::path& path, const RunSummary& summary) {
  nlohmann::ordered_json json;
  write_summary_fields(json, summary);
  write_atomically(
      path, json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n');
}

RunSummary read_summary(const std::filesystem::path& path) {
  return summary_from_json(read_text_file(path, kMaxSummaryBytes), path.string());
}

double samples_per_second(const RunSummary& run) {
  return run.seconds > 0 ? static_cast<double>(run.samples) / run.seconds : 0;
}

}  // namespace triaccel
