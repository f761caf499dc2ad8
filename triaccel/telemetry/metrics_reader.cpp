#include "triaccel/telemetry/metrics_reader.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"

namespace triaccel {
namespace {

constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;

/// Whether a line is a whole JSON object: a line that was cut short never is.
bool is_torn(const std::string& line) { return line.empty() || line.back() != '}'; }

std::string where(const std::filesystem::path& path, std::int64_t line) {
  return text(path.string(), ":", line);
}

void check_size(const std::filesystem::path& path, std::int64_t bytes, std::int64_t max_bytes) {
  if (bytes > max_bytes)
    throw StorageError(text(path.string(), " is longer than ", byte_text(max_bytes),
                            ", more than this program reads; is it the right file?"));
}

}  // namespace

bool for_each_metrics_line(const std::filesystem::path& path, const MetricsReadOptions& options,
                           const std::function<void(std::string_view, MetricsRecord&)>& visit) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw StorageError(text("cannot open ", path.string(), ": ", std::strerror(errno)));
  std::string line;
  std::string block(65536, '\0');
  std::int64_t number = 1;
  std::int64_t bytes = 0;
  const auto take = [&] {
    MetricsRecord record = from_jsonl(line, where(path, number));
    visit(line, record);
  };
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    std::string_view rest(block.data(), static_cast<std::size_t>(file.gcount()));
    bytes += file.gcount();
    check_size(path, bytes, options.max_bytes);
    for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      line.append(rest.substr(0, end));
      take();
      line.clear();
      ++number;
      rest.remove_prefix(end + 1);
    }
    line.append(rest);
    if (line.size() > kMaxLineBytes)
      throw StorageError(text(where(path, number), ": longer than ",
                              byte_text(static_cast<std::int64_t>(kMaxLineBytes)),
                              "; this is no metrics file"));
  }
  if (file.bad()) throw StorageError(text("cannot read ", path.string(), ": ", std::strerror(EIO)));
  if (line.empty()) return false;
  if (is_torn(line)) return true;
  try {
    take();
  } catch (const StorageError&) {
    return true;  // cut short after an inner '}'
  }
  return false;
}

RunMetrics read_metrics(const std::filesystem::path& path, const MetricsReadOptions& options) {
  RunMetrics metrics;
  bool started = false;
  metrics.torn = for_each_metrics_line(path, options, [&](std::string_view, MetricsRecord& record) {
    if (auto* info = std::get_if<RunInfo>(&record)) {
      if (!std::exchange(started, true)) metrics.info = std::move(*info);
      metrics.summary.reset();  // the run goes on
    } else if (auto* interval = std::get_if<IntervalRecord>(&record)) {
      metrics.intervals.push_back(std::move(*interval));
    } else if (auto* evaluation = std::get_if<EvaluationReport>(&record)) {
      metrics.evaluations.push_back(std::move(*evaluation));
    } else if (auto* notice = std::get_if<NoticeRecord>(&record)) {
      metrics.notices.push_back(std::move(*notice));
    } else if (auto* finish = std::get_if<FinishRecord>(&record)) {
      metrics.summary = std::move(finish->summary);
    }
  });
  return metrics;
}

}  // namespace triaccel
